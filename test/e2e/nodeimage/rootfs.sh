#!/usr/bin/env bash
# Writes the root file system of a kind node: a small Debian with systemd, the files of kind's own base image, and the changes
# that make it run where only cgroup v1 is to be had.
# usage: rootfs.sh KIND_SOURCE DIRECTORY
#
# KIND_SOURCE is the directory of module sigs.k8s.io/kind, which has the files of its base image. DIRECTORY must not exist.
set -euo pipefail
kind=$1
rootfs=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# The last Debian whose systemd runs on cgroup v1.
suite=bookworm
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
# What kind's Dockerfile names, without what storage on a network needs; runc is Debian's.
packages=(systemd systemd-sysv conntrack iptables nftables iproute2 ethtool util-linux mount kmod libseccomp2 bash ca-certificates
	jq procps runc)

[[ ! -e $rootfs ]] || { echo "$rootfs exists" >&2; exit 1; }
list=$(IFS=,; echo "${packages[*]}")
debootstrap --variant=minbase --include="$list" "$suite" "$rootfs" "$mirror" >"$rootfs.log" 2>&1 ||
	{ tail -20 "$rootfs.log" >&2; exit 1; }
rm -rf "$rootfs"/var/cache/apt/* "$rootfs"/var/lib/apt/lists/* "$rootfs"/usr/share/{doc,man,locale}/*

# kind's own files, with the modes that its Dockerfile gives them.
cp -r "$kind"/images/base/files/. "$rootfs"/
chmod -R u+w "$rootfs"/{kind,LICENSES,etc/containerd,etc/systemd/system} "$rootfs"/usr/local/bin "$rootfs"/etc/{crictl.yaml,default,sysctl.d}
chmod 755 "$rootfs"/usr/local/bin/* "$rootfs"/kind "$rootfs"/kind/bin "$rootfs"/kind/bin/*

# As in kind's Dockerfile: nothing starts with the node but what it needs.
find "$rootfs"/lib/systemd/system/sysinit.target.wants/ -name systemd-tmpfiles-setup.service -delete
rm -f "$rootfs"/lib/systemd/system/{multi-user,local-fs,basic}.target.wants/* "$rootfs"/etc/systemd/system/*.wants/* \
	"$rootfs"/lib/systemd/system/sockets.target.wants/*{udev,initctl}*
echo "ReadKMsg=no" >>"$rootfs"/etc/systemd/journald.conf
systemctl --root="$rootfs" --quiet enable kubelet.service containerd.service undo-mount-hacks.service
systemctl --root="$rootfs" --quiet mask systemd-binfmt.service
mkdir -p "$rootfs"/etc/kubernetes/manifests "$rootfs"/opt/cni/bin "$rootfs"/kind/manifests "$rootfs"/etc/cni/net.d

# Ours.
cp "$here"/files/10-ptp.conflist "$rootfs"/etc/cni/net.d/
cp "$here"/files/default-cni.yaml "$here"/files/default-storage.yaml "$rootfs"/kind/manifests/
install -m 755 "$here"/files/writable-cgroups.sh "$rootfs"/kind/bin/
# The kubelet refuses cgroup v1 unless it is told not to. No process may lower its oom_score_adj without CAP_SYS_RESOURCE, which
# the engine may lack.
sed -i 's/^KUBELET_EXTRA_ARGS=/&--fail-cgroupv1=false /' "$rootfs"/etc/default/kubelet
sed -i 's/restrict_oom_score_adj = false/restrict_oom_score_adj = true/' "$rootfs"/etc/containerd/config.toml
