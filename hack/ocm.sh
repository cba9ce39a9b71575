#!/usr/bin/env bash
# Builds Open Cluster Management's programs registration and placement, beside which make test-ocm runs the hub, and puts
# the configurations of registration's webhooks next to them.
# usage: hack/ocm.sh VERSION DIRECTORY
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/goenv.sh"
version=$1
mkdir -p "$2/webhooks"
into=$(cd "$2" && pwd)
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
install -m 644 manifests/cluster-manager/hub/registration/webhook-*configuration.yaml "$into/webhooks/"
# Registration's webhook server has no flag for its metrics, which would take port 8080 of this machine.
go build -ldflags '-X sigs.k8s.io/controller-runtime/pkg/metrics/server.DefaultBindAddress=0' -o "$into/" ./cmd/registration ./cmd/placement
touch "$into/placement"
