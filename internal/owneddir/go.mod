// A module of its own, so that the simulator, which keeps its own list of dependencies, can import it too.
module github.com/hollowfleet/hollowfleet/internal/owneddir

go 1.26.0

require golang.org/x/sys v0.47.0
