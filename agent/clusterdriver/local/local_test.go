package local_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/clusterdrivertest"
	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/fake"
	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/local"
	"github.com/hollowfleet/hollowfleet/internal/localclusters"
)

// keeper serves the fake driver as a keeper.
type keeper struct {
	*fake.Driver
	resources map[string]localclusters.Resources
}

func newKeeper(driver *fake.Driver) keeper {
	return keeper{driver, map[string]localclusters.Resources{}}
}

func (k keeper) List(ctx context.Context) (localclusters.ClusterList, error) {
	inventory, err := k.Driver.List(ctx)
	list := localclusters.ClusterList{Versions: inventory.Versions}
	for _, one := range inventory.Clusters {
		shown := localclusters.Cluster{Name: one.Name, UID: one.UID, Phase: localclusters.Phase(one.Phase), Version: one.Version, Message: k.resources[one.Name].DescribeUnenforced(),
			ControllerManager: one.ControllerManager, Scheduler: one.Scheduler}
		if !one.Checked.IsZero() {
			shown.Checked = &one.Checked
		}
		if !one.CredentialExpires.IsZero() {
			shown.CredentialExpires = &one.CredentialExpires
		}
		list.Clusters = append(list.Clusters, shown)
	}
	return list, err
}

func (k keeper) Get(ctx context.Context, name string) (localclusters.Cluster, error) {
	list, err := k.List(ctx)
	for _, one := range list.Clusters {
		if one.Name == name {
			return one, err
		}
	}
	return localclusters.Cluster{}, &localclusters.Problem{Reason: localclusters.NotFound, Message: "none"}
}

func (k keeper) Ensure(ctx context.Context, name string, desired localclusters.Desired) (localclusters.Cluster, error) {
	asked := clusterdriver.Desired{
		Name: name, UID: desired.UID, ControlPlaneVersion: desired.ControlPlaneVersion, Hub: clusterdriver.HubAccess{Server: desired.Hub.Server, CA: desired.Hub.CA},
	}
	if memory := desired.Resources.RequestsMemory; memory != "" {
		asked.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
	}
	k.resources[name] = desired.Resources
	if len(desired.Certificate) > 0 {
		asked.Credential = &clusterdriver.Credential{Certificate: desired.Certificate, Key: desired.Key}
	}
	if err := k.Driver.Ensure(ctx, asked); err != nil {
		return localclusters.Cluster{}, problemOf(err)
	}
	return k.Get(ctx, name)
}

func (k keeper) Remove(ctx context.Context, name, uid string) (localclusters.Cluster, error) {
	found, err := k.Get(ctx, name)
	if err != nil {
		return found, err
	}
	if found.UID != uid {
		return found, &localclusters.Problem{Reason: localclusters.NameTaken, Message: "another UID"}
	}
	if gone, err := k.Driver.Remove(ctx, name, uid); err != nil || !gone {
		return found, err
	}
	return k.Get(ctx, name)
}

func problemOf(err error) error {
	var refused *clusterdriver.RefusedError
	if !errors.As(err, &refused) {
		return err
	}
	return &localclusters.Problem{Reason: localclusters.Reason(refused.Refusal), Message: refused.Problem, Versions: refused.Versions}
}

// serve serves handler on a socket until the test ends.
func serve(t *testing.T, handler http.Handler) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), localclusters.SocketName)
	listener, err := net.Listen("unix", socket) //nolint:noctx // a test's own socket
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return socket
}

func TestConformance(t *testing.T) {
	clusterdrivertest.Run(t, func(t *testing.T) clusterdrivertest.Subject {
		socket := serve(t, localclusters.NewHandler(newKeeper(fake.New(clock.RealClock{}, "v1.37", "v1.36", "v1.35").BoundMemory(resource.MustParse("1Ti")))))
		return clusterdrivertest.Subject{
			Driver: local.New(socket), Version: "v1.35", Other: "v1.36", Later: "v1.37", Unsupported: "v1.20", Timeout: time.Minute,
			Huge: "2Ti", Unenforced: []string{"requests.cpu", "limits.cpu", "limits.memory"},
		}
	})
}

// Claim: An answer that is not a keeper's says nothing. Broken: any 404 is taken for a removal.
func TestWhatIsNoKeeperSaysNothing(t *testing.T) {
	for name, socket := range map[string]string{
		"no keeper":                  filepath.Join(t.TempDir(), "none.sock"),
		"another server":             serve(t, http.NotFoundHandler()),
		"one that answers at random": serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) })),
	} {
		t.Run(name, func(t *testing.T) {
			g, driver := NewWithT(t), local.New(socket)
			var refused *clusterdriver.RefusedError
			_, err := driver.List(t.Context())
			g.Expect(err).To(MatchError(localclusters.ErrUnavailable))
			gone, _ := driver.Remove(t.Context(), "c", "u")
			g.Expect(gone).To(BeFalse())
			err = driver.Ensure(t.Context(), clusterdriver.Desired{Name: "c", UID: "u"})
			g.Expect(errors.As(err, &refused)).To(BeFalse(), "%v", err)
		})
	}
}

func TestARefusalNamesTheFieldOfTheUser(t *testing.T) {
	g := NewWithT(t)
	runs := fake.New(clock.RealClock{}, "v1.37")
	runs.Fail("Ensure c", &localclusters.Problem{Reason: localclusters.Changing, Field: "controlPlaneVersion", Message: "ask again"})
	driver := local.New(serve(t, localclusters.NewHandler(newKeeper(runs))))
	err := driver.Ensure(t.Context(), clusterdriver.Desired{Name: "c", UID: "u", Hub: clusterdriver.HubAccess{Server: "https://127.0.0.1:1"}})
	var refused *clusterdriver.RefusedError
	g.Expect(errors.As(err, &refused)).To(BeTrue(), "%v", err)
	g.Expect(*refused).To(Equal(clusterdriver.RefusedError{Refusal: clusterdriver.Changing, Problem: "spec.versions.controlPlane: ask again"}))
}
