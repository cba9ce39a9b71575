# What test/e2e/run.sh and test/fidelity/run.sh share: the container engine and the image of a kind node. They source this file in the root
# of the repository. say() is theirs.

. hack/goenv.sh

# require_engine TARGET INSTANCES ends the script early, with a remedy, if make TARGET cannot run here. INSTANCES is how many inotify
# instances its kind clusters need.
require_engine() {
	local said limit used
	if ! command -v docker >/dev/null; then
		echo "make $1 needs Docker, for kind: there is no program docker. On Debian: apt-get install docker.io. Otherwise: https://docs.docker.com/engine/install" >&2
		exit 1
	fi
	if ! said=$(docker version --format '{{.Server.Version}}' 2>&1); then
		echo "make $1 needs Docker, for kind, and no engine answers: $said" >&2
		echo "Start it (systemctl start docker, or dockerd as root), and let this user use it." >&2
		exit 1
	fi
	say "Docker $said"
	# Three kind nodes fit into the usual limit of 128 inotify instances, but not beside several local fleets: then kube-proxy fails with
	# "too many open files", and nothing else says why.
	limit=$(cat /proc/sys/fs/inotify/max_user_instances 2>/dev/null || echo 0)
	used=$(find /proc/[0-9]*/fd -lname anon_inode:inotify 2>/dev/null | wc -l || true)
	if ((limit > 0 && limit - used < $2)); then
		echo "make $1 needs about $2 inotify instances, and only $((limit - used)) of fs.inotify.max_user_instances, $limit, are free." >&2
		echo "Raise it (sysctl -w fs.inotify.max_user_instances=512), or end the local fleets that use them." >&2
		exit 1
	fi
}

# find_node_image DIRECTORY sets image to that of a kind node: KIND_NODE_IMAGE, else kindest/node, else one that is built in DIRECTORY.
# kubeadm, and all that it starts, are of one version; kind's own image of the same minor is as good.
find_node_image() {
	local published
	mkdir -p "$1"
	published=kindest/node:$(cd test/e2e && go run ./defaultimage)
	if [[ -n ${KIND_NODE_IMAGE:-} ]]; then
		image=$KIND_NODE_IMAGE
	elif docker image inspect "$published" >/dev/null 2>&1 || docker pull --quiet "$published" >/dev/null 2>&1; then
		image=$published
	else
		say "no registry has $published"
		image=$(test/e2e/nodeimage/build.sh "$1" | tail -n 1)
	fi
	say "nodes are of image $image"
	# An engine without CAP_SYS_RESOURCE starts no privileged container.
	HOLLOWFLEET_DOCKER=${HOLLOWFLEET_DOCKER:-$(command -v docker)}
	export HOLLOWFLEET_DOCKER
	if ! docker run --rm --privileged --entrypoint /bin/true "$image" >/dev/null 2>&1; then
		say "the engine starts no privileged container: trying with all capabilities but CAP_SYS_RESOURCE"
		PATH=$PWD/test/e2e/docker:$PATH
		docker run --rm --privileged --entrypoint /bin/true "$image"
	fi
}

# take_kubectl DIRECTORY puts the node's kubectl there, which is of the version of the API server.
take_kubectl() {
	local container
	container=$(docker create "$image")
	docker cp "$container:/usr/bin/kubectl" "$1/kubectl"
	docker rm "$container" >/dev/null
}
