#!/usr/bin/env bash
# Fuzzes each decoder of the product for a while and ends with a summary. An input that fails is written to the package's
# testdata/fuzz, from where "go test" runs it again: commit it with the fix.
# usage: hack/fuzz.sh FUZZTIME MODULE...
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
root=$PWD
fuzztime=$1
shift
logs=$root/bin/test-logs
mkdir -p "$logs"
. hack/goenv.sh
export HOLLOWFLEET_BIN=${HOLLOWFLEET_BIN:-$root/bin}

results=()
failed=0
for module in "$@"; do
	# A module below this one has its own go.mod, so its files are left to its own turn.
	while IFS=: read -r file name; do
		package=./$(dirname "$file")
		# The nearest go.mod above the file says which module it belongs to.
		owner=$package
		while [[ $owner != . && ! -f $module/$owner/go.mod ]]; do owner=$(dirname "$owner"); done
		[[ $owner == . ]] || continue
		log=$logs/fuzz-$name.log
		verdict=ok
		echo "== $module: $package $name for $fuzztime"
		if ! (cd "$module" && go test -vet=off -run '^$' -fuzz "^$name\$" -fuzztime "$fuzztime" "$package") >"$log" 2>&1; then
			verdict=FAIL
			failed=1
			tail -n 30 "$log"
		fi
		results+=("$(printf '%-4s  %-40s %s' "$verdict" "$name" "$(grep -o 'execs: [0-9]*' "$log" | tail -n 1)")")
	done < <(cd "$module" && grep -rHoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed -E 's/^\.\///; s/:func /:/' | sort)
done

echo
echo "== fuzz: summary"
if [[ ${#results[@]} == 0 ]]; then
	echo "FAIL  no fuzz test was found"
	exit 1
fi
printf '%s\n' "${results[@]}"
exit "$failed"
