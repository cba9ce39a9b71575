package layout_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// What only a controller needs: a manager, and what it sends traces with.
var controllersOnly = []string{
	"sigs.k8s.io/controller-runtime/pkg/manager", "sigs.k8s.io/controller-runtime/pkg/controller", "sigs.k8s.io/controller-runtime/pkg/builder",
	"go.opentelemetry.io/otel/sdk/trace", "google.golang.org/grpc",
}

// The plugin reads what the controllers read, by packages that write nothing; it links none of the controllers.
// Claim: The plugin links no controller. Broken: the command line imports hub/internal/fleet; the list names a package that the hub does not link either.
func TestThePluginLinksNoController(t *testing.T) {
	g := NewWithT(t)
	linkedBy := func(program string) []string {
		listed, err := command(t, []string{"GOWORK=off"}, "go", "list", "-deps", "-tags", "grpcnotrace", "./hub/cmd/"+program)
		g.Expect(err).NotTo(HaveOccurred(), listed)
		return strings.Fields(listed)
	}
	hub, plugin := linkedBy("hub"), linkedBy("kubectl-hollow")
	for _, needed := range controllersOnly {
		g.Expect(hub).To(ContainElement(needed))
		g.Expect(plugin).NotTo(ContainElement(needed))
	}
}
