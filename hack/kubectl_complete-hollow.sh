#!/bin/sh
# kubectl asks the program of this name on the PATH, kubectl_complete-hollow, to complete "kubectl hollow".
exec "$(dirname -- "$(readlink -f -- "$0")")/kubectl-hollow" __complete "$@"
