#!/usr/bin/env bash
# Breaks fleets again and again: rounds of the suites that break things, each round with another seed, until one fails.
# usage: [SUITES="faults chaos restored tenclusters"] hack/repeat.sh TIMES SEED [whole]
#
# SEED is that of the first round; 0 draws one. With "whole", each round has all faults, not a draw of them. The suites and
# the programs are copied at the beginning, so that a build meanwhile changes nothing. Logs go to bin/test-logs, those of
# hubs, agents and control planes too if a suite fails, with the data of their etcds: its write-ahead log has the last changes
# of each object.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
times=$1 seed=$2 whole=${3:-}
[[ $seed != 0 ]] || seed=$((RANDOM + 1))
root=$PWD
logs=$root/bin/test-logs
mkdir -p "$logs"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work" # Hollow nodes run as another user.
. hack/goenv.sh

read -ra suites <<<"${SUITES:-faults chaos restored tenclusters}"
mkdir "$work/bin"
find bin -maxdepth 1 -type f -exec cp {} "$work/bin/" \;
for suite in "${suites[@]}"; do
	go test -c -vet=off -o "$work/$suite.test" "./test/integration/$suite"
done
export HOLLOWFLEET_BIN=$work/bin

for ((round = 1; round <= times; round++, seed++)); do
	for suite in "${suites[@]}"; do
		arguments=(-test.timeout=0 -ginkgo.timeout=0)
		case $suite in
		faults) arguments+=("-faults.seed=$seed" ${whole:+-faults.whole}) ;;
		chaos) arguments+=("-chaos.seed=$seed") ;;
		esac
		log=$logs/repeat-$suite-$seed.log
		started=$SECONDS
		verdict=ok
		export HOLLOWFLEET_KEEP_LOGS=$logs/repeat-$suite-$seed
		mkdir -p "$HOLLOWFLEET_KEEP_LOGS"
		(cd "test/integration/$suite" && "$work/$suite.test" "${arguments[@]}") >"$log" 2>&1 || verdict=FAIL
		printf '%s  %-4s  round %d of %d, seed %d  %-12s %5d s\n' "$(date +%T)" "$verdict" "$round" "$times" "$seed" "$suite" $((SECONDS - started))
		if [[ $verdict == FAIL ]]; then
			echo "see $log and $HOLLOWFLEET_KEEP_LOGS"
			exit 1
		fi
		rm -rf "$HOLLOWFLEET_KEEP_LOGS"
	done
done
