#!/usr/bin/env bash
# Runs suites of tests and ends with a summary. "make test" builds what they need first.
# usage: hack/test.sh [short] [unit] [integration]
#
# With "short", tests that are marked as long are left out. At the end the slowest packages and specs are shown.
# The lines of "go test" go to standard output as they are, and to bin/test-logs. A failed suite does not stop
# the next one; the exit code says whether all passed. A suite that finds no test at all has failed.
# TESTFLAGS is handed to go test.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
root=$PWD
logs=$root/bin/test-logs
mkdir -p "$logs"
# Control planes collect garbage less often than they do elsewhere. Above 200, fresh pages cost as much as that saves.
export GOGC=200
processors=$(nproc 2>/dev/null || sysctl -n hw.ncpu)
# What a test waits for without a time of its own may take long on a busy machine.
export GOMEGA_DEFAULT_EVENTUALLY_TIMEOUT=30s
. hack/goenv.sh
export HOLLOWFLEET_BIN=${HOLLOWFLEET_BIN:-$root/bin}

started=$SECONDS
short=() count=(-count=1)
# Each integration package leaves the times of its specs here.
export HOLLOWFLEET_SPEC_TIMES=$logs/specs
rm -rf "$HOLLOWFLEET_SPEC_TIMES"
mkdir -p "$HOLLOWFLEET_SPEC_TIMES"

# go_test SUITE DIRECTORY TIMEOUT ARGUMENT... runs go test and keeps its output and exit code.
# Tests are linked without debug information, which takes half of the time that the linker needs.
go_test() {
	local suite=$1 directory=$2 timeout=$3
	shift 3
	echo "== $suite"
	# Not cached, but for plain packages: what these tests start are programs that go test knows nothing of.
	# Not vetted: make verify does, for whole modules.
	(
		cd "$directory" || exit 2
		# shellcheck disable=SC2086 # TESTFLAGS is a list of flags
		"$root/hack/progress.sh" "$suite" 30 \
			go test "${count[@]}" -vet=off "${short[@]}" -timeout "$timeout" ${TESTFLAGS:-} "$@"
	) | tee "$logs/$suite.log"
	echo "${PIPESTATUS[0]}" >"$logs/$suite.code"
}

# start_shared_server starts the control plane of the packages whose tests leave each other alone, testenv.Share, in a group of which
# others have one of their own: testenv.Start. The first two cost 1.7 and 2.1 s of a processor there and a third 1.1 s, alone 3.4 s each.
start_shared_server() {
	shared=$(mktemp -d "${TMPDIR:-/tmp}/hollowfleet-shared-XXXXXX") || exit 2
	export HOLLOWFLEET_SHARED_SERVER=$shared/data HOLLOWFLEET_SHARED_GROUP=$shared/group
	"$HOLLOWFLEET_BIN/simcluster" group --dir "$HOLLOWFLEET_SHARED_GROUP" >"$logs/shared-group.log" 2>&1 &
	shared_group=$!
	trap stop_shared_server EXIT
	until "$HOLLOWFLEET_BIN/simcluster" group status --dir "$HOLLOWFLEET_SHARED_GROUP" >/dev/null 2>&1; do
		kill -0 "$shared_group" || exit 2
		sleep 0.2
	done
	# Nodes that a test makes have no kubelet, whose silence the node controller would note (see testenv.Start).
	"$HOLLOWFLEET_BIN/simcluster" start --group "$HOLLOWFLEET_SHARED_GROUP" --name shared --data-dir "$HOLLOWFLEET_SHARED_SERVER" \
		--components etcd,kube-apiserver,kube-controller-manager \
		--controller-manager-arg node-monitor-period=1h >"$logs/shared-server.log" 2>&1 || exit 2
}

stop_shared_server() {
	kill "$shared_group" 2>/dev/null
	wait "$shared_group"
	"$HOLLOWFLEET_BIN/simcluster" delete --data-dir "$HOLLOWFLEET_SHARED_SERVER" && rm -rf "$shared"
}

# Packages of the root module whose tests take longest. They begin first, so that none of them runs alone at the end: one that
# waits, with several control planes, beside one that works.
slowest=(
	test/integration/lifecycle hub/internal/machinedeployment hub/internal/fleet agent/internal/loadtest hub hub/cli
	test/integration/faults agent test/integration/restored test/integration/fleet test/integration/loadtruth test/integration/demo
	hub/internal/machineset agent/internal/machine test/integration/cli test/integration/joining test/integration/tenancy
	test/integration/chaos test/integration/ocm test/integration/autoscaler test/api/admission test/api
	agent/internal/clientcert hub/internal/cluster agent/internal/clusterstatus
)

# list_plain DIRECTORY lists the packages of the module there whose tests start no program: nothing of it that they link imports os/exec.
list_plain() (
	cd "$1" || exit
	starters=$(go list -test -f '{{range .Imports}}{{if eq . "os/exec"}}{{println $.ImportPath}}{{end}}{{end}}' ./...) || exit
	go list -test -f '{{.ImportPath}}{{range .Deps}}{{"\n\t"}}{{.}}{{end}}' ./... | awk '
		NR == FNR { starts["\t" $0]; next }
		/^\t/ { if ($0 in starts) test = ""; next }
		{ if (test) print test; test = sub(/\.test$/, "") ? $0 : "" }
		END { if (test) print test }' <(echo "$starters") -
)

# plain SUITE DIRECTORY PACKAGES LDFLAGS runs these packages. With "short", go test repeats the result of those that are unchanged: it
# knows all that they depend on, and linking one takes two seconds of a processor, more than most of their tests.
plain() {
	local packages
	[[ ${#short[@]} == 0 ]] || count=()
	mapfile -t packages <<<"$3"
	go_test "$1" "$2" 10m -p 2 -ldflags "$4" "${packages[@]}"
}

# root FILTER... runs the other packages of the root module that grep finds with FILTER.
root() {
	local found name packages=()
	if ! found=$(go list ./... | grep -vxF "$plain" | grep "$@"); then
		echo "FAIL: listing the packages of the root module"
		echo 1 >"$logs/root.code"
		return
	fi
	for name in "${slowest[@]}"; do
		mapfile -t -O "${#packages[@]}" packages < <(grep "/$name\$" <<<"$found")
	done
	mapfile -t -O "${#packages[@]}" packages < <(grep -vxF "$(printf '%s\n' "${packages[@]}")" <<<"$found")
	# As many packages at a time as there are processors, beside one of the modules. With twice as many nothing was done sooner: an API
	# server took half a minute to start, and hubs were too slow to renew their leases.
	go_test root . 40m -p "$processors" -ldflags '-s -w' "${packages[@]}"
}

# modules runs the tests of all modules but the root module, and at the end the plain packages of that and of the simulator.
modules() {
	local packages
	go_test apis apis 5m ./...
	go_test owneddir internal/owneddir 5m ./...
	go_test tools hack/tools 5m ./...
	go_test release hack/release 5m ./...
	# The Kubernetes version is linked in, as it is into the programs.
	mapfile -t packages < <(cd agent/simulator && go list ./... | grep -vxF "$simulator_plain")
	go_test simulator agent/simulator 20m -p 1 -parallel $((processors + 1)) -ldflags "${SIMULATOR_LDFLAGS:-}" "${packages[@]}"
	plain sim-plain agent/simulator "$simulator_plain" "${SIMULATOR_LDFLAGS:-}"
	plain plain . "$plain" '-s -w'
}

suites=()
for argument in "$@"; do
	case $argument in
	short) short=(-short) ;;
	unit | integration) suites+=("$argument") ;;
	*)
		echo "unknown suite $argument" >&2
		exit 2
		;;
	esac
done
ran=(apis owneddir tools release simulator sim-plain plain root)
if ! { plain=$(list_plain .) && simulator_plain=$(list_plain agent/simulator); }; then
	echo "listing packages failed" >&2
	exit 1
fi
case ${suites[*]} in
integration)
	ran=(root)
	root /test/integration
	;;
unit)
	start_shared_server
	modules &
	modules=$!
	root -v /test/integration
	;;
*)
	start_shared_server
	# Most of these tests wait more than they work, so the modules' run beside each other.
	modules &
	modules=$!
	root .
	;;
esac
[[ -z ${modules:-} ]] || wait "$modules"

failed=0
echo
echo "== summary, $((SECONDS - started)) s"
for suite in "${ran[@]}"; do
	code=$(<"$logs/$suite.code")
	passed=$(grep -c '^ok  	' "$logs/$suite.log")
	broken=$(grep -c '^FAIL	' "$logs/$suite.log")
	if [[ $code == 0 && $passed -gt 0 ]]; then
		verdict=ok
	else
		verdict=FAIL
		failed=1
	fi
	printf '%-4s  %-12s %3d packages passed, %d failed\n' "$verdict" "$suite" "$passed" "$broken"
	[[ $verdict == ok ]] || grep '^FAIL	' "$logs/$suite.log" | sed 's/^/        /'
done
echo
echo "== slowest packages, seconds"
for suite in "${ran[@]}"; do
	sed -nE 's/^(ok|FAIL)[[:space:]]+(\S+)[[:space:]]+([0-9.]+)s$/\3 \2/p' "$logs/$suite.log"
done | sort -rn | head -10 | awk '{ printf "%7.1f  %s\n", $1, $2 }'
if compgen -G "$HOLLOWFLEET_SPEC_TIMES/*.tsv" >/dev/null; then
	echo
	echo "== slowest specs, seconds"
	sort -rn "$HOLLOWFLEET_SPEC_TIMES"/*.tsv | head -10 | awk -F '\t' '{ printf "%7.1f  %s\n", $1, $2 }'
fi
exit "$failed"
