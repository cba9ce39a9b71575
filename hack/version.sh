#!/usr/bin/env bash
# Prints the version of the source, which is the tag of its images: the last tag and the commit. A tree with changes that are not
# committed gets their digest too: other content has another tag, so that an upgrade replaces the pods.
# usage: hack/version.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=$(git describe --tags --always --abbrev=12 2>/dev/null) || { echo dev; exit 0; }
if [[ -n $(git status --porcelain) ]]; then
	changes=$({ git diff --binary HEAD; git ls-files --others --exclude-standard -z | xargs -0 -r tail -c +1 -v --; } | sha256sum)
	version+=-dirty-${changes:0:8}
fi
echo "$version"
