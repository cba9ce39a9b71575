#!/usr/bin/env bash
# Builds hollow-node for another Kubernetes minor than the built-in one, or tests it.
# usage: hack/minor.sh build|test MINOR BIN
#
# "build" writes BIN/vMINOR/hollow-node. "test" builds a kubelet of that minor, which needs each private field that a hollow kubelet
# reaches into, and lets BIN/vMINOR/hollow-node join a control plane of BIN/simcluster and run pods.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
action=$1 minor=$2 bin=$(realpath -m "$3")
. hack/goenv.sh
modules=minors/v$minor.mod
cd agent/simulator
version=$(awk '$1 == "k8s.io/kubernetes" && $2 ~ /^v/ { print $2; exit }' "$modules")
package=k8s.io/component-base/version
ldflags="-s -w -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=${minor#1.}"

build() {
	NOTE="Kubernetes $version is compiled here: about 6 minutes on 2 cores with an empty cache, seconds from then on" \
		"$root/hack/progress.sh" "hollow-node for $minor" 10 \
		go build -v -modfile="$modules" -buildvcs=false -ldflags "$ldflags" -o "$bin/v$minor/" ./cmd/hollow-node
}

check() {
	local programs
	programs=$(mktemp -d)
	# shellcheck disable=SC2064 # It is known now, and not when the script ends.
	trap "rm -rf '$programs'" EXIT
	ln -s "$bin/simcluster" "$programs/simcluster"
	ln -s "$bin/v$minor/hollow-node" "$programs/hollow-node"
	go test -count=1 -vet=off -modfile="$modules" -ldflags "$ldflags" -run '^(TestKubelet|TestCode.*|TestNodeLabels.*|TestANodeThatExists.*|TestBuiltIn)$' \
		./internal/hollownode ./internal/kubeletversion
	HOLLOWFLEET_BIN=$programs go test -count=1 -vet=off -ldflags "${SIMULATOR_LDFLAGS:-}" \
		-run '^(TestAnotherMinor|TestAKubeletAllocatesDevices|TestAKubeletPreparesClaims|TestAKubeletHasVolumesOfACSIDriver|TestANodeShutsDownGracefully|TestStaticPodsHaveMirrorPods)$' ./cmd/hollow-node
}

case $action in
build) build ;;
test) check ;;
*)
	echo "unknown action $action" >&2
	exit 2
	;;
esac
