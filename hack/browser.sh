#!/usr/bin/env bash
# Prepares a machine for the tests that drive a browser, and prints the variables that they need: Chromium from Debian's packages, where it
# is missing, and axe-core with npm, by the version and the checksum below, into bin/browser. Use: source <(hack/browser.sh)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=4.14.1 checksum=29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c
axe=$PWD/bin/browser/axe-$version.min.js
if ! command -v chromium chromium-browser google-chrome >/dev/null; then
	{ apt-get update -q && apt-get install -q -y --no-install-recommends chromium; } >&2
fi
if ! echo "$checksum  $axe" | sha256sum --check --status 2>/dev/null; then
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	npm pack --silent --pack-destination "$work" "axe-core@$version" >&2
	tar -xzf "$work/axe-core-$version.tgz" -C "$work" package/axe.min.js
	echo "$checksum  $work/package/axe.min.js" | sha256sum --check --quiet >&2
	mkdir -p "$(dirname "$axe")"
	cp "$work/package/axe.min.js" "$axe"
fi
echo "export HOLLOWFLEET_AXE='$axe' HOLLOWFLEET_BROWSER_REQUIRED=1"
