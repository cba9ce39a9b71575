#!/usr/bin/env bash
# Runs one script of node and pod events on a kind node and on a hollow node, and prints what differs. make fidelity calls it.
# usage: test/fidelity/run.sh
#
# KIND_NODE_IMAGE names the image of a node, as in make e2e. ONLY=life,probes runs some steps. KEEP=1 leaves the kind cluster for the next
# run, which then takes it. The recordings of both sides are in bin/fidelity.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=$PWD/bin/fidelity
name=hollowfleet-fidelity
. hack/goenv.sh
say() { echo "$(date +%T) $*" >&2; }

. test/e2e/engine.sh
require_engine fidelity 60
mkdir -p "$out"
find_node_image "$PWD/bin/e2e/node"
make build >&2
take_kubectl "$out"
export KUBECONFIG=$out/kind.kubeconfig
kubectl() { "$out/kubectl" "$@"; }

version=$(cd test/e2e && go list -m -f '{{.Version}}' sigs.k8s.io/kind)
[[ -x $out/kind-$version ]] || { GOBIN=$out go install "sigs.k8s.io/kind@$version" && mv "$out/kind" "$out/kind-$version"; }
kind=$out/kind-$version

# The device plugin of the kind node: Kubernetes' own sample.
(cd agent/simulator && go build -o "$out/device-plugin" k8s.io/kubernetes/test/images/sample-device-plugin)

# The program of the pods, in an image that has nothing else.
go build -buildvcs=false -ldflags '-s -w' -o "$out/workload" ./test/fidelity/workload
image_name=hollowfleet.io/fidelity-workload:v1
tar -C "$out" -c workload | docker import --change 'ENTRYPOINT ["/workload"]' - "$image_name" >/dev/null

# approve_certificates approves what the kubelets serve with, which in a local fleet the agent does.
approve_certificates() {
	local pending
	pending=$(kubectl get csr -o jsonpath='{range .items[?(@.spec.signerName=="kubernetes.io/kubelet-serving")]}{.metadata.name} {end}')
	# shellcheck disable=SC2086 # It is a list of names.
	[[ -z $pending ]] || kubectl certificate approve $pending >/dev/null
}

# press gives a node a threshold that it is always below: the configuration that test/fidelity/hollow.go gives the hollow one.
press() {
	docker exec "$1" sed -i 's/^evictionHard:/&\n  memory.available: "99.9%"/' /var/lib/kubelet/config.yaml
	docker exec "$1" systemctl restart kubelet
}

# route_pods gives each node a network of its own for pods, where the image has one for all.
route_pods() {
	local node other cidr
	docker exec "$name-control-plane" test -e /etc/cni/net.d/10-ptp.conflist || return 0
	for node in $("$kind" get nodes --name "$name"); do
		cidr=$(kubectl get node "$node" -o jsonpath='{.spec.podCIDR}')
		docker exec "$node" sed -i "s|\"subnet\": \"[^\"]*\"|\"subnet\": \"$cidr\"|" /etc/cni/net.d/10-ptp.conflist
		for other in $("$kind" get nodes --name "$name"); do
			[[ $other == "$node" ]] || docker exec "$node" ip route replace "$(kubectl get node "$other" -o jsonpath='{.spec.podCIDR}')" \
				via "$(kubectl get node "$other" -o jsonpath='{.status.addresses[?(@.type=="InternalIP")].address}')"
		done
	done
}

if ! "$kind" get clusters 2>/dev/null | grep -qxF "$name" || ! kubectl version >/dev/null 2>&1; then
	"$kind" delete cluster --name "$name" >/dev/null 2>&1 || true
	"$kind" create cluster --name "$name" --image "$image" --wait 3m --retain --config - >&2 <<'CLUSTER'
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
nodes: [{role: control-plane}, {role: worker}, {role: worker}]
kubeadmConfigPatches:
  - |
    kind: KubeletConfiguration
    serverTLSBootstrap: true
CLUSTER
	route_pods
	press "$name-worker2"
fi
[[ -n ${KEEP:-} && ${KEEP:-} != 0 ]] || trap '"$kind" delete cluster --name "$name"' EXIT
"$kind" load docker-image "$image_name" --name "$name" >&2
for _ in 1 2 3; do
	approve_certificates
	sleep 2
done

go run ./test/fidelity --kubeconfig "$KUBECONFIG" --node "$name-worker" --pressed "$name-worker2" --device-plugin "$out/device-plugin" --kubectl "$out/kubectl" --out "$out" --only "${ONLY:-}"
