#!/usr/bin/env bash
# Writes config/crd, config/schema and docs/api.md from the API types, and config/rbac/{hub,agent-hub} from the RBAC
# markers in the code of hub and agent; what the agent needs on its workload cluster is written by hand. Then copies what
# the charts have of config/: helm packages nothing that is outside of a chart.
# usage: hack/manifests.sh CONTROLLER_GEN CRD_REF_DOCS
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. hack/goenv.sh
controller_gen=$(realpath "$1")
crd_ref_docs=$(realpath "$2")

# Everything is generated aside first: an error leaves config/, which is compiled into the programs, as it was.
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
(cd apis && "$controller_gen" crd paths=./... "output:crd:artifacts:config=$new/crd")
go run ./hack/crdbounds "$new"/crd/*.yaml
"$controller_gen" rbac:roleName=hollowfleet-hub paths=./hub/... "output:rbac:artifacts:config=$new/rbac/hub"
# Not ./agent/...: modules below have no markers, and those of other minors cannot be read by themselves.
"$controller_gen" rbac:roleName=hollowfleet-agent "paths=$(go list ./agent/... | paste -sd ';')" "output:rbac:artifacts:config=$new/rbac/agent-hub"
(cd hack/tools && go run ./schemas --apis ../../apis --crds "$new/crd" --out "$new/schema")
"$crd_ref_docs" --log-level=ERROR --source-path=apis --config=hack/apidocs/config.yaml --renderer=markdown \
	--templates-dir=hack/apidocs/templates --output-path="$new/api.md"
# A page has no two blank lines in a row, and none at its end.
cat -s "$new/api.md" | sed -e '1{/^$/d}' -e '${/^$/d}' >"$new/api"
if ! cmp -s "$new/api" docs/api.md; then
	cp "$new/api" docs/api.md
	echo "wrote docs/api.md"
fi

# A kind that is gone takes its CRD with it. Files that are not generated are left alone.
for old in config/crd/hollowfleet.io_*.yaml; do
	if [[ -e $old && ! -e $new/crd/${old##*/} ]]; then
		rm "$old"
	fi
done
cd "$new"
find . \( -name '*.yaml' -o -name '*.json' \) -print0 | while IFS= read -r -d '' file; do
	if ! cmp -s "$file" "$OLDPWD/config/$file"; then
		mkdir -p "$(dirname "$OLDPWD/config/$file")"
		cp "$file" "$OLDPWD/config/$file"
		echo "wrote config/${file#./}"
	fi
done
cd "$OLDPWD"

# copy_to DIRECTORY FILE[=NAME]... makes a directory that has copies of these files and nothing else.
copy_to() {
	local directory=$1 pair file name kept=()
	shift
	mkdir -p "$directory"
	for pair in "$@"; do
		file=${pair%%=*} name=${pair#*=}
		name=${name##*/}
		kept+=("$name")
		cmp -s "$file" "$directory/$name" && continue
		cp "$file" "$directory/$name"
		echo "wrote $directory/$name"
	done
	for file in "$directory"/*; do
		[[ " ${kept[*]} " == *" ${file##*/} "* ]] || rm "$file"
	done
}
copy_to charts/hub/files/crd config/crd/*.yaml
copy_to charts/hub/files/admission config/admission/*.yaml
# Not the namespace: with the release, helm would delete it and all that is in it.
copy_to charts/hub/files/rbac config/rbac/hub/{serviceaccount,role,role_binding,role_join_tokens,role_leader_election}.yaml \
	config/rbac/agent-hub/role.yaml=agent_role.yaml config/rbac/autoscaler/role.yaml=autoscaler_role.yaml config/rbac/users/role.yaml=users_role.yaml
copy_to charts/agent/files/rbac config/rbac/agent-workload/{10-agent,20-hollow-node-bootstrap}.yaml
copy_to charts/simcluster/files/rbac config/rbac/agent-workload/{00-namespace,10-agent,20-hollow-node-bootstrap}.yaml
# What a release of an older chart lacks when it is upgraded with --reuse-values.
for chart in hub agent simcluster; do
	if ! cmp -s charts/$chart/values.yaml charts/$chart/files/defaults.yaml; then
		cp charts/$chart/values.yaml charts/$chart/files/defaults.yaml
		echo "wrote charts/$chart/files/defaults.yaml"
	fi
done
for chart in agent simcluster; do
	copy_to charts/$chart/files/load-tests config/rbac/agent-load-tests/role.yaml=load-tests.yaml
done
copy_to charts/agent/files/csi config/rbac/agent-csi/{role,policy}.yaml
copy_to charts/agent/files/kwok config/rbac/agent-kwok/{role,policy}.yaml
copy_to charts/agent/files/kwok-stages agent/driver/kwok/stages/{kwok,node,pod}.yaml
copy_to charts/agent/files/simulated-clusters config/rbac/agent-simulated-clusters/{role,policy}.yaml
