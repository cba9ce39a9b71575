#!/bin/bash
# Runs before kind's entrypoint. A container that has every capability but is not "privileged" gets its cgroups read-only;
# systemd and the kubelet need to write them.
set -euo pipefail
while read -r mount; do
	mount -o remount,bind,rw "$mount"
done < <(findmnt --list --noheadings --output TARGET --types cgroup,cgroup2)
exec "$@"
