#!/usr/bin/env bash
# Runs Hollowfleet on real kind clusters. make e2e calls it.
# usage: test/e2e/run.sh
#
# KIND_NODE_IMAGE names the image of a node; without it kindest/node is pulled, and where no registry has it, one is built.
# CERT_MANAGER_SOURCE is a clone of cert-manager's repository, or its URL: cert-manager is built from it, into directory CERT_MANAGER, and
# the specs that need it run. HOSTED=10 measures so many simulated clusters as pods of one host, and runs nothing else. KEEP=1 leaves the
# clusters. TESTFLAGS is handed to go test, GINKGOFLAGS to the suite. Logs of a failed run are in a new directory bin/e2e/logs-….
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
out=$root/bin/e2e
. hack/goenv.sh
say() { echo "$(date +%T) $*"; }

. test/e2e/engine.sh
# Without an engine there is nothing to be done, and nothing is built.
require_engine e2e 100
mkdir -p "$out/bin"
find_node_image "$out/node"

make images
if [[ -n ${CERT_MANAGER_SOURCE:-} ]]; then
	say "building cert-manager $(basename "$CERT_MANAGER"): a few minutes with an empty cache"
	hack/cert-manager.sh "$(basename "$CERT_MANAGER")" "$CERT_MANAGER" "$CERT_MANAGER_SOURCE"
	certmanager=()
	for program in controller cainjector webhook; do
		certmanager+=("cert-manager-$program:$(basename "$CERT_MANAGER")")
		tar -C "$CERT_MANAGER" -c "$program" | docker import --change 'USER 65532' --change "ENTRYPOINT [\"/$program\"]" - "${certmanager[-1]}" >/dev/null
	done
	docker save --output "$CERT_MANAGER/images.tar" "${certmanager[@]}"
	HOLLOWFLEET_CERT_MANAGER=$(cd "$CERT_MANAGER" && pwd)
	export HOLLOWFLEET_CERT_MANAGER
fi
(cd hack/release && go build -buildvcs=false -ldflags '-s -w' -o "$out/bin/helm" helm.sh/helm/v3/cmd/helm)
ln -sf "$root/bin/kubectl-hollow" "$out/bin/kubectl-hollow"
take_kubectl "$out/bin"

export HOLLOWFLEET_KIND_IMAGE=$image HOLLOWFLEET_E2E_PATH=$out/bin HOLLOWFLEET_E2E_OUTPUT=$out
cd test/e2e
[[ -z ${HOSTED:-} ]] || GINKGOFLAGS="${GINKGOFLAGS:-} -ginkgo.label-filter=hosted"
# shellcheck disable=SC2086 # TESTFLAGS and GINKGOFLAGS are lists of flags
exec go test -count=1 -vet=off -v -timeout 50m ${TESTFLAGS:-} . -args -ginkgo.v -ginkgo.timeout=50m ${GINKGOFLAGS:-}
