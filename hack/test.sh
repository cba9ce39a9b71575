#!/usr/bin/env bash
# Runs suites of tests and ends with a summary. "make test" builds what they need first.
# usage: hack/test.sh [unit] [integration]
#
# The lines of "go test" go to standard output as they are, and to bin/test-logs. A failed suite does not stop
# the next one; the exit code says whether all passed. A suite that finds no test at all has failed.
# TESTFLAGS is handed to go test.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
root=$PWD
logs=$root/bin/test-logs
mkdir -p "$logs"
export CGO_ENABLED=0 GOWORK=off HOLLOWFLEET_BIN=${HOLLOWFLEET_BIN:-$root/bin}

started=$SECONDS
ran=()

# go_test SUITE DIRECTORY TIMEOUT ARGUMENT... runs go test and keeps its output and exit code.
go_test() {
	local suite=$1 directory=$2 timeout=$3
	shift 3
	echo "== $suite"
	ran+=("$suite")
	# Not cached: what these tests start are programs that go test knows nothing of.
	# Not vetted: make verify does, for whole modules.
	(
		cd "$directory" || exit 2
		# shellcheck disable=SC2086 # TESTFLAGS is a list of flags
		"$root/bin/tools/heartbeat" -name "$suite" -every 30s -quiet 30s -- \
			go test -count=1 -vet=off -timeout "$timeout" ${TESTFLAGS:-} "$@"
	) | tee "$logs/$suite.log"
	echo "${PIPESTATUS[0]}" >"$logs/$suite.code"
}

unit() {
	go_test apis apis 5m ./...
	go_test tools hack/tools 5m ./...
	# The Kubernetes version is linked in, as it is into the programs.
	go_test simulator agent/simulator 20m -ldflags "${SIMULATOR_LDFLAGS:-}" ./...
	# Integration tests have a suite of their own.
	local packages
	if ! packages=$(go list ./... | grep -v '/test/integration'); then
		echo "FAIL: listing the packages of the root module"
		ran+=(root)
		echo 1 >"$logs/root.code"
		return
	fi
	mapfile -t packages <<<"$packages"
	go_test root . 20m "${packages[@]}"
}

integration() {
	# Two packages at a time, however many cores there are: each starts several control planes, and then waits more than
	# it works.
	go_test integration . 40m -p 2 ./test/integration/...
}

for suite in "$@"; do
	case $suite in
	unit | integration) "$suite" ;;
	*)
		echo "unknown suite $suite" >&2
		exit 2
		;;
	esac
done

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
exit "$failed"
