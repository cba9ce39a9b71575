#!/usr/bin/env bash
# Builds an unmodified cert-manager for make e2e: its controller, cainjector and webhook, and its chart, which has its kinds.
# usage: hack/cert-manager.sh TAG DIRECTORY SOURCE
# SOURCE is a clone of its repository that has the tag, or the URL of one. What DIRECTORY has already is not built again.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/goenv.sh"
tag=$1
mkdir -p "$2"
to=$(cd "$2" && pwd)
source=$3
[[ ! -e $to/chart/Chart.yaml ]] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! git -C "$source" rev-parse --verify --quiet "$tag^{commit}" >/dev/null 2>&1; then
	git clone --quiet --bare --depth 1 --branch "$tag" "$source" "$work/clone"
	source=$work/clone
fi
mkdir "$work/tree"
git -C "$source" archive "$tag" | tar x -C "$work/tree"
# Its own go.mod files decide what it is built from: it is nothing that Hollowfleet depends on.
for program in controller cainjector webhook; do
	(cd "$work/tree/cmd/$program" && go build -buildvcs=false -ldflags "-s -w -X github.com/cert-manager/cert-manager/pkg/util.AppVersion=$tag" -o "$to/$program" .)
done
rm -rf "$to/chart"
cp -r "$work/tree/deploy/charts/cert-manager" "$work/chart"
# A release of cert-manager writes its version into the chart.
[[ -e $work/chart/Chart.yaml ]] || mv "$work/chart/Chart.template.yaml" "$work/chart/Chart.yaml"
sed -i "s/v0\.0\.0/$tag/" "$work/chart/Chart.yaml"
mv "$work/chart" "$to/chart"
