# Sourced by scripts that call go, and read by the Makefile: the settings that every package is compiled with. Another set of them is
# another build cache, and ten minutes of Kubernetes.
# No C compiler is needed, and every module is built from its own go.mod: a build means the same with and without go.work.
export CGO_ENABLED=0 GOWORK=off
# Without paths of this machine, a release, a clone and a worktree compile the same, and share the cache. The user's own GOFLAGS stay.
GOFLAGS=$(go env GOFLAGS 2>/dev/null || true)
[[ " $GOFLAGS " == *' -trimpath '* ]] || GOFLAGS="${GOFLAGS:+$GOFLAGS }-trimpath"
export GOFLAGS
