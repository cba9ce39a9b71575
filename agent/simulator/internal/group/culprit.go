package group

import "github.com/hollowfleet/hollowfleet/agent/simulator/internal/plane"

// traceLines of the log are searched for the goroutine that has panicked: its trace comes first.
const traceLines = 400

// findCulprit names the component that has ended the process, if the log says.
func (g *group) findCulprit() string {
	if component := plane.FailedComponent(g.log.Tail(traceLines)); component != "" {
		g.planes.countEnd(component)
		return " because of " + component
	}
	return ""
}
