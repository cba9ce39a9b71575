#!/usr/bin/env bash
# Checks what a reviewer should not have to. Uncommitted work is welcome: generated files are compared with
# what they were before, not with the last commit.
# usage: hack/verify.sh GOLANGCI_LINT MODULE...
#
# Every check runs, also after a failed one; the list at the end says which failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
root=$PWD
linter=$(realpath "$1")
shift
modules=("$@")
. hack/goenv.sh
unset MAKEFLAGS MAKELEVEL # make is called from here too, and is no child of a parallel make

results=()
failed=0

# check NAME COMMAND... runs a check and notes how it went.
check() {
	local name=$1 started=$SECONDS verdict=ok
	shift
	echo "== verify: $name"
	if ! "$@"; then
		verdict=FAIL
		failed=1
	fi
	results+=("$(printf '%-4s  %-32s %4d s' "$verdict" "$name" $((SECONDS - started)))")
}

in_each_module() {
	local module code=0
	for module in "${modules[@]}"; do
		(cd "$module" && "$@") || { echo "$module: $* failed"; code=1; }
	done
	return "$code"
}

generated() {
	find apis -name 'zz_generated*' -print0 | xargs -0 -r sha256sum
	find config/crd config/schema config/rbac docs/api.md charts/*/files -type f -print0 2>/dev/null | xargs -0 -r sha256sum
}

generated_files_are_current() {
	local before after
	before=$(generated | sort -k2)
	make generate manifests || return 1
	after=$(generated | sort -k2)
	diff <(echo "$before") <(echo "$after") >/dev/null && return 0
	echo "make generate manifests changed these files; review and commit them:"
	diff <(echo "$before") <(echo "$after") | awk '/^[<>]/ { print "  " $3 }' | sort -u
	return 1
}

formatted() {
	local files
	files=$(find . -name '*.go' -not -path './bin/*' -print0 | xargs -0 "$(go env GOROOT)/bin/gofmt" -l) || return 1
	[[ -z $files ]] && return 0
	printf 'gofmt would change:\n%s\n' "$files"
	return 1
}

# The linter runs the same analyzers over every package but those that link Kubernetes: see hack/lint.sh.
vetted() {
	(cd agent/simulator && "$root/hack/progress.sh" "go vet" 15 go vet ./...)
}

# The linter is shown a breach of every wall and must refuse it; chains of imports are followed in the repository itself.
walls() {
	(cd hack/tools && GOLANGCI_LINT=$linter go test -count=1 ./walls)
}

# People run kubectl on macOS and Windows too. With an empty cache each takes two minutes on two cores, seconds from then on; make release
# compiles the same.
cross_compiled() {
	local platform
	for platform in darwin/arm64 windows/amd64; do
		GOOS=${platform%/*} GOARCH=${platform#*/} "$root/hack/progress.sh" "kubectl-hollow for $platform" 15 \
			go build -v -buildvcs=false -tags grpcnotrace -ldflags '-s -w' -o /dev/null ./hub/cmd/kubectl-hollow || return 1
	done
}

check "generated files" generated_files_are_current
check "gofmt" formatted
check "words" hack/words.sh
check "go mod tidy" in_each_module go mod tidy -diff
check "go vet, simulator" vetted
check "import walls" walls
check "plugin for macOS and Windows" cross_compiled
check "golangci-lint configuration" "$linter" config verify
check "golangci-lint" hack/lint.sh "$linter" "${modules[@]}"

echo
echo "== verify: summary"
printf '%s\n' "${results[@]}"
exit "$failed"
