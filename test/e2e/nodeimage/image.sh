#!/usr/bin/env bash
# Writes one of the images that kubeadm starts a control plane from to standard output, as docker save does.
# usage: image.sh NAME PROGRAMS ROOTFS
#
# NAME is what kubeadm calls it, such as registry.k8s.io/kube-apiserver:v1.37.1. ROOTFS is the node's, for the userland of iptables.
set -euo pipefail
name=$1
programs=$2
rootfs=$3
program=$(basename "${name%:*}")
content=$(mktemp -d)
trap 'rm -rf "$content"' EXIT
mkdir -p "$content"/{usr/local/bin,etc,tmp}
chmod 1777 "$content/tmp"
install -m 755 "$programs/$program" "$content/usr/local/bin/"

# kube-proxy calls iptables. An extension that is missing leaves a Node that is Ready, and Services that do not answer.
iptables() {
	local file
	mkdir -p "$content"/{usr/sbin,usr/lib/x86_64-linux-gnu,lib64,run}
	ln -s usr/sbin "$content/sbin"
	ln -s usr/lib "$content/lib"
	for file in /usr/sbin/{xtables-nft-multi,xtables-legacy-multi,nft,conntrack}; do
		cp "$rootfs$file" "$content$file"
	done
	for file in iptables ip6tables; do
		for command in "$file" "$file-save" "$file-restore"; do
			ln -s xtables-nft-multi "$content/usr/sbin/$command"
		done
	done
	cp -r "$rootfs"/usr/lib/x86_64-linux-gnu/xtables "$content"/usr/lib/x86_64-linux-gnu/
	cp /dev/null "$content/etc/passwd"
	chroot "$rootfs" bash -c 'ldd /usr/sbin/{xtables-nft-multi,xtables-legacy-multi,nft,conntrack} /usr/lib/x86_64-linux-gnu/xtables/*.so' |
		grep -o '/[^ ]*\.so[^ ]*' | grep -v /xtables/ | sort -u |
		while read -r file; do
			mkdir -p "$content$(dirname "$file")"
			cp -L "$rootfs$file" "$content$file"
		done
}

[[ $program != kube-proxy ]] || iptables
# The manifests of kubeadm name the program of each but these two.
entrypoint='[]'
case $program in
coredns) entrypoint='["/usr/local/bin/coredns"]' ;;
pause) entrypoint='["/usr/local/bin/pause"]' ;;
esac
tar -C "$content" --owner 0 --group 0 --numeric-owner -c . |
	docker import --change "ENTRYPOINT $entrypoint" --change 'ENV PATH=/usr/local/bin:/usr/sbin' - "$name" >/dev/null
docker save "$name"
docker image rm "$name" >/dev/null
