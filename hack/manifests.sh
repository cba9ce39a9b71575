#!/usr/bin/env bash
# Writes config/crd from the API types and config/rbac/{hub,agent-hub} from the RBAC
# markers in the code of hub and agent; what the agent needs on its workload cluster is written by hand.
# usage: hack/manifests.sh CONTROLLER_GEN
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
controller_gen=$(realpath "$1")

# Everything is generated aside first: an error leaves config/, which is compiled into the programs, as it was.
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
(cd apis && "$controller_gen" crd paths=./... "output:crd:artifacts:config=$new/crd")
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
