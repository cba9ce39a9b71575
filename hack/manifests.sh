#!/usr/bin/env bash
# Writes config/crd from the API types and config/rbac/{hub,agent-hub} from the RBAC
# markers in the code of hub and agent; what the agent needs on its workload cluster is written by hand. Then copies what
# the charts have of config/: helm packages nothing that is outside of a chart.
# usage: hack/manifests.sh CONTROLLER_GEN
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
controller_gen=$(realpath "$1")

# Everything is generated aside first: an error leaves config/, which is compiled into the programs, as it was.
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
# bound gives the types of other packages the bounds that their Go code needs and their schemas lack. A quantity's exponent
# is the number of digits that Go computes, so it has two digits at most. A time is what RFC 3339 allows; with the
# format date-time the API server accepts more, also an empty list. A condition's message is cut by the code that writes it.
# The last five are for a RolloutStrategy.
bound() {
	sed -E -i \
		-e 's/^( *)pattern: \^\(\\\+\|-\)\?\(\(\[0-9\]\+.*numkMGTPE.*$/\1maxLength: 48\n\1pattern: ^[-+]?([0-9]{1,20}(\\.[0-9]{0,18})?|\\.[0-9]{1,18})([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,2})?$/' \
		-e 's/^( *)format: date-time$/\1maxLength: 35\n\1pattern: ^([12][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))|([12][0-9](0[48]|[2468][048]|[13579][26])|2000)-02-29)T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[-+]([01][0-9]|2[0-3]):[0-5][0-9])$/' \
		-e 's/^( *)maxLength: 32768$/\1maxLength: 4096/' \
		-e '/^ *minSuccessTime:$/,/type: string/ s/^( *)type: string$/\1maxLength: 32\n\1pattern: ^(0|([0-9]{1,5}h|[0-9]{1,7}m|[0-9]{1,9}s)+)$\n\1type: string/' \
		-e 's/^( *)pattern: \^\(\(\[0-9\]\)\+\[h\|m\|s\]\)\|None\$$/\1maxLength: 32\n\1pattern: ^(None|([0-9]{1,5}h|[0-9]{1,7}m|[0-9]{1,9}s)+)$/' \
		-e 's/^( *)(pattern: \^\(\(100\|\[0-9\]\{1,2\}\)%\|\[0-9\]\+\)\$)$/\1maxLength: 16\n\1maximum: 1000000\n\1minimum: 0\n\1\2/' \
		-e '/^ *mandatoryDecisionGroups:$/,/type: array/ s/^( *)type: array$/\1maxItems: 64\n\1type: array/' \
		-e '/^ *groupName:$/,/type: string/ s/^( *)type: string$/\1maxLength: 63\n\1type: string/' \
		"$@"
}
(cd apis && "$controller_gen" crd paths=./... "output:crd:artifacts:config=$new/crd")
bound "$new"/crd/*.yaml
"$controller_gen" rbac:roleName=hollowfleet-hub paths=./hub/... "output:rbac:artifacts:config=$new/rbac/hub"
"$controller_gen" rbac:roleName=hollowfleet-agent paths=./agent/... "output:rbac:artifacts:config=$new/rbac/agent-hub"

# A kind that is gone takes its CRD with it. Files that are not generated are left alone.
for old in config/crd/hollowfleet.io_*.yaml; do
	if [[ -e $old && ! -e $new/crd/${old##*/} ]]; then
		rm "$old"
	fi
done
cd "$new"
find . -name '*.yaml' -print0 | while IFS= read -r -d '' file; do
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
	config/rbac/agent-hub/role.yaml=agent_role.yaml config/rbac/autoscaler/role.yaml=autoscaler_role.yaml
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
