#!/usr/bin/env bash
# Runs golangci-lint in every module, with the one configuration in .golangci.yml.
# usage: hack/lint.sh GOLANGCI_LINT MODULE...
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
root=$PWD
linter=$(realpath "$1")
shift
. hack/goenv.sh

# These linters look into every dependency. Over Kubernetes' 2,700 packages that takes four minutes and 11 GB
# of memory, so packages that link it do without them; go vet, in make verify, covers govet's part there.
far_sighted=staticcheck,govet,bodyclose,contextcheck,nilerr,nilnesserr,unparam,spancheck

failed=0
run() {
	local name=$1
	shift
	"$root/hack/progress.sh" "lint $name" 15 "$linter" run "$@" || failed=1
}

for module in "$@"; do
	cd "$root/$module" || exit 2
	if [[ $module != agent/simulator ]]; then
		run "$module" ./...
		continue
	fi
	if ! packages=$(go list -f '{{.ImportPath}} {{join .Deps " "}}' ./...); then
		failed=1
		continue
	fi
	packages=${packages//"$(go list -m)"/.} # the linter wants directories
	mapfile -t heavy < <(grep ' k8s.io/kubernetes/' <<<"$packages" | cut -d' ' -f1)
	mapfile -t light < <(grep -v ' k8s.io/kubernetes/' <<<"$packages" | cut -d' ' -f1)
	[[ ${#light[@]} == 0 ]] || run "$module" "${light[@]}"
	[[ ${#heavy[@]} == 0 ]] || run "$module (packages that link Kubernetes)" "--disable=$far_sighted" "${heavy[@]}"
done
exit "$failed"
