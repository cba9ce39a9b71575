#!/usr/bin/env bash
# Builds an unmodified cluster-autoscaler, with no other provider than clusterapi, for make test-autoscaler.
# usage: hack/cluster-autoscaler.sh TAG FILE [CLONE]
# CLONE is a clone of its repository that has the tag. Without one the tag is fetched over the network.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/goenv.sh"
tag=$1
mkdir -p "$(dirname "$2")"
file=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
clone=${3:-}
source=$(mktemp -d)
trap 'rm -rf "$source"' EXIT
if [[ -z $clone ]]; then
	clone=$source/clone
	git clone --quiet --bare --depth 1 --branch "$tag" https://github.com/kubernetes/autoscaler "$clone"
fi
git -C "$clone" archive "$tag" cluster-autoscaler | tar x -C "$source"
# Its own go.mod and go.sum decide what it is built from: it is nothing that Hollowfleet depends on.
cd "$source/cluster-autoscaler"
go build -tags clusterapi -o "$file" .
