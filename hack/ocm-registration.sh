#!/usr/bin/env bash
# Builds Open Cluster Management's registration program, beside which make test-ocm runs the hub.
# usage: hack/ocm-registration.sh VERSION FILE
set -euo pipefail
version=$1
mkdir -p "$(dirname "$2")"
file=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
module=open-cluster-management.io/ocm@$version
# Its own go.mod and go.sum decide what it is built from: it is nothing that Hollowfleet depends on.
empty=$(mktemp -d)
trap 'rmdir "$empty"' EXIT
if ! answer=$(cd "$empty" && go mod download -json "$module"); then
	echo "$module cannot be downloaded: is the Go module proxy within reach?" >&2
	echo "$answer" >&2
	exit 1
fi
dir=$(sed -n 's/^\t"Dir": "\(.*\)",$/\1/p' <<<"$answer")
cd "$dir"
go build -o "$file" ./cmd/registration
