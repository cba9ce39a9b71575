#!/usr/bin/env bash
# Fetches what the dashboard embeds of others, by the version and the checksum below, with npm as it is set up here. It is run by hand to
# take another version: builds use the files in the repository.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
package=idiomorph version=0.8.0 checksum=4cbd535caf7663a51eda9bce6595371c384fc430d54b8d414e29a61167f19f96
into=hub/cli/dashboard/assets
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
npm pack --silent --pack-destination "$work" "$package@$version" >/dev/null
tar -xzf "$work/$package-$version.tgz" -C "$work"
echo "$checksum  $work/package/dist/idiomorph.min.js" | sha256sum --check --quiet
cp "$work/package/dist/idiomorph.min.js" "$into/"
{
	echo "What the dashboard embeds of others, fetched by hack/dashboard-assets.sh:"
	echo
	echo "idiomorph.min.js: npm package $package $version, licence $(sed -n 's/.*"license": "\(.*\)".*/\1/p' "$work/package/package.json")"
	echo
	cat "$work/package/LICENSE"
} >"$into/LICENSES"
