#!/usr/bin/env bash
# Builds the programs of a kind node from Go modules: Kubernetes' own, etcd, containerd, CNI plugins, CoreDNS.
# usage: programs.sh DIRECTORY
#
# Kubernetes and etcd are those that agent/simulator requires, compiled with the same flags, so that Go's build cache serves
# both. A program that is there is not built again.
set -euo pipefail
out=$(realpath "$1")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
. "$root/hack/goenv.sh"
. "$here/versions"

say() { echo "$(date +%T) $*"; }

# built NAME COMMAND... builds a program unless it is there. Each is written whole or not at all.
built() {
	local name=$1 started=$SECONDS
	shift
	[[ ! -x $out/$name ]] || return 0
	"$@" "$out/.$name"
	mv "$out/.$name" "$out/$name"
	say "built $name in $((SECONDS - started)) s"
}

# kubernetes PACKAGE FILE builds a package of what the simulator requires. kubeadm, kubectl and kube-proxy need modules that it
# has no checksums of: they go into a copy of its go.mod.
kubernetes() {
	(cd "$root/agent/simulator" && go build -buildvcs=false -mod=mod -modfile="$out/kubernetes.mod" \
		-ldflags "$SIMULATOR_LDFLAGS" -o "$2" "$1")
}

# module VERSION PACKAGE FILE builds a package of another module with that module's own requirements.
module() {
	local work
	work=$(mktemp -d)
	(cd "$work" && GOBIN=$work go install -buildvcs=false -ldflags '-s -w' "$2@$1")
	mv "$work/$(basename "${2%/v[0-9]}")" "$3"
	rm -r "$work"
}

ours() {
	(cd "$here/$1" && go build -buildvcs=false -ldflags '-s -w' -o "$2" .)
}

mkdir -p "$out"
cp "$root/agent/simulator/go.mod" "$out/kubernetes.mod"
cp "$root/agent/simulator/go.sum" "$out/kubernetes.sum"

for name in kubelet kubeadm kubectl kube-apiserver kube-controller-manager kube-scheduler kube-proxy; do
	built "$name" kubernetes "k8s.io/kubernetes/cmd/$name"
done
built etcd kubernetes go.etcd.io/etcd/server/v3
for name in containerd ctr containerd-shim-runc-v2; do
	built "$name" module "$CONTAINERD" "github.com/containerd/containerd/v2/cmd/$name"
done
for plugin in main/loopback main/ptp ipam/host-local meta/portmap; do
	built "$(basename "$plugin")" module "$CNI_PLUGINS" "github.com/containernetworking/plugins/plugins/$plugin"
done
for name in coredns crictl pause; do
	built "$name" ours "$name"
done
