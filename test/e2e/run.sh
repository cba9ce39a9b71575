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

# Without an engine there is nothing to be done, and nothing is built.
if ! command -v docker >/dev/null; then
	echo "make e2e needs Docker, for kind: there is no program docker. On Debian: apt-get install docker.io. Otherwise: https://docs.docker.com/engine/install" >&2
	exit 1
fi
if ! said=$(docker version --format '{{.Server.Version}}' 2>&1); then
	echo "make e2e needs Docker, for kind, and no engine answers: $said" >&2
	echo "Start it (systemctl start docker, or dockerd as root), and let this user use it." >&2
	exit 1
fi
say "Docker $said"

# Three kind clusters fit into the usual limit of 128 inotify instances, but not beside several local fleets: then kube-proxy fails with
# "too many open files", and nothing else says why.
limit=$(cat /proc/sys/fs/inotify/max_user_instances 2>/dev/null || echo 0)
used=$(find /proc/[0-9]*/fd -lname anon_inode:inotify 2>/dev/null | wc -l || true)
if ((limit > 0 && limit - used < 100)); then
	echo "make e2e needs about 100 inotify instances, and only $((limit - used)) of fs.inotify.max_user_instances, $limit, are free." >&2
	echo "Raise it (sysctl -w fs.inotify.max_user_instances=512), or end the local fleets that use them." >&2
	exit 1
fi

mkdir -p "$out"/{bin,node}
# kubeadm, and all that it starts, are of one version; kind's own image of the same minor is as good.
published=kindest/node:$(cd test/e2e && go run ./defaultimage)
if [[ -n ${KIND_NODE_IMAGE:-} ]]; then
	image=$KIND_NODE_IMAGE
elif docker image inspect "$published" >/dev/null 2>&1 || docker pull --quiet "$published" >/dev/null 2>&1; then
	image=$published
else
	say "no registry has $published"
	image=$(test/e2e/nodeimage/build.sh "$out/node" | tail -n 1)
fi
say "nodes are of image $image"

# An engine without CAP_SYS_RESOURCE starts no privileged container.
HOLLOWFLEET_DOCKER=$(command -v docker)
export HOLLOWFLEET_DOCKER
if ! docker run --rm --privileged --entrypoint /bin/true "$image" >/dev/null 2>&1; then
	say "the engine starts no privileged container: trying with all capabilities but CAP_SYS_RESOURCE"
	PATH=$root/test/e2e/docker:$PATH
	docker run --rm --privileged --entrypoint /bin/true "$image"
fi

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
# The node's kubectl is of the version of the API server.
container=$(docker create "$image")
docker cp "$container:/usr/bin/kubectl" "$out/bin/kubectl"
docker rm "$container" >/dev/null

export HOLLOWFLEET_KIND_IMAGE=$image HOLLOWFLEET_E2E_PATH=$out/bin HOLLOWFLEET_E2E_OUTPUT=$out
cd test/e2e
[[ -z ${HOSTED:-} ]] || GINKGOFLAGS="${GINKGOFLAGS:-} -ginkgo.label-filter=hosted"
# shellcheck disable=SC2086 # TESTFLAGS and GINKGOFLAGS are lists of flags
exec go test -count=1 -vet=off -v -timeout 50m ${TESTFLAGS:-} . -args -ginkgo.v -ginkgo.timeout=50m ${GINKGOFLAGS:-}
