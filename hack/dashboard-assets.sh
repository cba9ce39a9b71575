#!/usr/bin/env bash
# Fetches what the dashboard and its tests embed of others, by the versions and the checksums below, with npm as it is set up here. It is run
# by hand to take other versions: builds use the files in the repository.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# fetch PACKAGE VERSION FILE CHECKSUM unpacks a package of npm into $work/package, and checks one of its files.
fetch() {
	rm -rf "$work/package"
	npm pack --silent --pack-destination "$work" "$1@$2" >/dev/null
	tar -xzf "$work/$1-$2.tgz" -C "$work"
	echo "$4  $work/package/$3" | sha256sum --check --quiet
}

into=hub/cli/dashboard/assets version=0.8.0
fetch idiomorph $version dist/idiomorph.min.js 4cbd535caf7663a51eda9bce6595371c384fc430d54b8d414e29a61167f19f96
cp "$work/package/dist/idiomorph.min.js" "$into/"
{
	echo "What the dashboard embeds of others, fetched by hack/dashboard-assets.sh:"
	echo
	echo "idiomorph.min.js: npm package idiomorph $version, licence $(sed -n 's/.*"license": "\(.*\)".*/\1/p' "$work/package/package.json")"
	echo
	cat "$work/package/LICENSE"
} >"$into/LICENSES"

# axe-core, of the Mozilla Public License, checks pages in tests, and is in no program.
fetch axe-core 4.14.1 axe.min.js 29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c
cp "$work/package/"{axe.min.js,LICENSE,LICENSE-3RD-PARTY.txt} internal/dev/browser/axe/
