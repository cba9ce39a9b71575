#!/usr/bin/env bash
# Builds a node image for kind where no registry has one, from Debian packages and Go modules. It takes about 17 minutes with empty
# caches and a minute with warm ones, and it needs root, for debootstrap.
# usage: build.sh DIRECTORY
#
# DIRECTORY keeps the programs and the root file system, each below a hash of what it is made of. The name of the image is the last
# line of standard output; progress is reported on standard error. SIMULATOR_LDFLAGS is the Makefile's.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
. "$root/hack/goenv.sh"
: "${SIMULATOR_LDFLAGS:?make e2e sets it}"
say() { echo "$(date +%T) $*" >&2; }
hash() { sha256sum | cut -c1-12; }

kind=$(cd "$root/test/e2e" && go mod download sigs.k8s.io/kind && go list -m -f '{{.Dir}}' sigs.k8s.io/kind)
rootfs_key=$({ echo "$kind"; cat "$here"/rootfs.sh "$here"/files/*; } | hash)
programs_key=$({
	go env GOVERSION
	cat "$root/agent/simulator/go.mod" "$here"/{programs.sh,versions} "$here"/*/*.go
	grep -E 'cri-api|grpc|coredns' "$root/test/e2e/go.mod"
} | hash)
key=$({ echo "$rootfs_key $programs_key"; cat "$here"/{build,image}.sh; } | hash)
image=hollowfleet-kind-node:$key
finished() {
	echo "$image"
	exit
}
docker image inspect "$image" >/dev/null 2>&1 && finished

if [[ $(id -u) != 0 ]] || ! command -v debootstrap >/dev/null; then
	echo "A node image for kind is built with debootstrap, by root: apt-get install debootstrap. Or name one with KIND_NODE_IMAGE." >&2
	exit 1
fi
mkdir -p "$1"
directory=$(realpath "$1")
rootfs=$directory/rootfs-$rootfs_key
programs=$directory/programs-$programs_key
say "building node image $image in $directory"
find "$directory" -mindepth 1 -maxdepth 1 ! -path "$rootfs" ! -path "$programs" -exec rm -rf {} +

if [[ ! -d $rootfs ]]; then
	"$here/rootfs.sh" "$kind" "$rootfs.new"
	mv "$rootfs.new" "$rootfs"
	say "wrote the root file system"
fi
"$here/programs.sh" "$programs" >&2

install -m 755 "$programs"/{kubelet,kubeadm,kubectl} "$rootfs/usr/bin/"
install -m 755 "$programs"/{containerd,ctr,containerd-shim-runc-v2,crictl} "$rootfs/usr/local/bin/"
install -m 755 "$programs"/{loopback,ptp,host-local,portmap} "$rootfs/opt/cni/bin/"
"$programs/ctr" oci spec |
	chroot "$rootfs" jq '.hooks.createContainer += [{"path": "/kind/bin/mount-product-files.sh"}] | del(.process.rlimits)' \
		>"$rootfs/etc/containerd/cri-base.json"
version=$("$programs/kubeadm" version -o short)
echo "$version" >"$rootfs/kind/version"
mapfile -t images < <("$programs/kubeadm" config images list --kubernetes-version "$version")
pause=$(printf '%s\n' "${images[@]}" | grep /pause:)
sed -i "s#sandbox_image = .*#sandbox_image = \"$pause\"#" "$rootfs/etc/containerd/config.toml"

base=$image-base
tar -C "$rootfs" --numeric-owner -c . | docker import --change 'ENV container=docker' - "$base" >/dev/null
say "imported the base image"

# The signal that ends systemd becomes part of the image.
container=$(docker run --detach --stop-signal SIGRTMIN+3 --security-opt seccomp=unconfined --entrypoint /usr/local/bin/containerd "$base")
trap 'docker rm --force --volumes "$container" >/dev/null' EXIT
timeout 60 bash -c "until docker exec $container ctr version >/dev/null 2>&1; do sleep 0.2; done" ||
	{ docker logs "$container" >&2; exit 1; }
for name in "${images[@]}"; do
	"$here/image.sh" "$name" "$programs" "$rootfs" |
		docker exec --interactive "$container" ctr --namespace k8s.io images import --no-unpack --label io.cri-containerd.pinned=pinned - >&2
done
there=$(docker exec "$container" ctr --namespace k8s.io images list --quiet)
for name in "${images[@]}"; do
	grep -qxF "$name" <<<"$there" || { echo "image $name is not in the node image, only: $there" >&2; exit 1; }
done
docker kill --signal TERM "$container" >/dev/null
docker wait "$container" >/dev/null
docker commit --change 'ENTRYPOINT ["/kind/bin/writable-cgroups.sh", "/usr/local/bin/entrypoint", "/sbin/init"]' --change 'CMD []' \
	"$container" "$image" >/dev/null
say "the node image is $image, $(docker image inspect --format '{{.Size}}' "$image" | numfmt --to=si)B"
finished
