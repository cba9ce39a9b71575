package localclusters_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/localclusters"
)

// keeper remembers clusters, and answers with err if it is set.
type keeper struct {
	clusters map[string]localclusters.Cluster
	err      error
}

func (k *keeper) List(context.Context) (localclusters.ClusterList, error) {
	list := localclusters.ClusterList{Versions: []string{"v1.36"}}
	for _, cluster := range k.clusters {
		list.Clusters = append(list.Clusters, cluster)
	}
	return list, k.err
}

func (k *keeper) Get(_ context.Context, name string) (localclusters.Cluster, error) {
	cluster, there := k.clusters[name]
	if !there {
		return cluster, &localclusters.Problem{Reason: localclusters.NotFound, Message: "there is none"}
	}
	return cluster, k.err
}

func (k *keeper) Ensure(_ context.Context, name string, desired localclusters.Desired) (localclusters.Cluster, error) {
	k.clusters[name] = localclusters.Cluster{Name: name, UID: desired.UID, Phase: localclusters.Starting}
	return k.clusters[name], k.err
}

func (k *keeper) Remove(ctx context.Context, name, _ string) (localclusters.Cluster, error) {
	cluster, err := k.Get(ctx, name)
	delete(k.clusters, name)
	return cluster, err
}

func serve(t *testing.T, handler http.Handler) *localclusters.Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), strings.Repeat("d", 120), localclusters.SocketName) // Longer than an address may be.
	NewWithT(t).Expect(os.Mkdir(filepath.Dir(socket), 0o700)).To(Succeed())
	listener, err := localclusters.ListenSocket(t.Context(), net.ListenConfig{}, socket)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return localclusters.NewClient(socket)
}

func desired(t *testing.T, name string) localclusters.Desired {
	certificate, key := testenv.AgentCredential(t, name, time.Now().Add(time.Hour))
	return localclusters.Desired{UID: "0815", Hub: localclusters.HubAccess{Server: "https://127.0.0.1:6443", CA: certificate}, Certificate: certificate, Key: key}
}

func TestClientAndHandlerUnderstandEachOther(t *testing.T) {
	g := NewWithT(t)
	fake := &keeper{clusters: map[string]localclusters.Cluster{}}
	client := serve(t, localclusters.NewHandler(fake))
	g.Expect(client.Get(t.Context(), "s1")).To(BeNil())
	g.Expect(client.Ensure(t.Context(), "s1", desired(t, "s1"))).To(Succeed())
	g.Expect(client.Get(t.Context(), "s1")).To(HaveValue(Equal(localclusters.Cluster{Name: "s1", UID: "0815", Phase: localclusters.Starting})))
	list, err := client.List(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(list.Clusters).To(HaveLen(1))
	g.Expect(list.Versions).To(Equal([]string{"v1.36"}))
	g.Expect(client.Remove(t.Context(), "s1", "0815")).To(BeFalse())
	g.Expect(client.Remove(t.Context(), "s1", "0815")).To(BeTrue())

	fake.err = localclusters.VersionError("v1.20", []string{"v1.36"})
	err = client.Ensure(t.Context(), "s1", desired(t, "s1"))
	g.Expect(localclusters.ReasonOf(err)).To(Equal(localclusters.VersionNotSupported))
	g.Expect(err).To(MatchError("controlPlaneVersion: v1.20 cannot be run here: choose one of v1.36"))
}

// Claim: Only a keeper's own answer says that a cluster is gone. Broken: any 404 counted.
func TestOnlyAKeeperSaysThatAClusterIsGone(t *testing.T) {
	for name, client := range map[string]*localclusters.Client{
		"nobody listens":  localclusters.NewClient(filepath.Join(t.TempDir(), "none")),
		"another program": serve(t, http.NotFoundHandler()),
		"an error":        serve(t, localclusters.NewHandler(&keeper{err: errors.New("no file"), clusters: map[string]localclusters.Cluster{"s1": {}}})),
		"another's reason": serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"reason":"NoRoom"}`, http.StatusNotFound)
		})),
		"no JSON":            serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) })),
		"another's redirect": serve(t, http.RedirectHandler("/elsewhere", http.StatusFound)),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := client.Get(t.Context(), "s1")
			g.Expect(err).To(MatchError(localclusters.ErrUnavailable))
			if name == "no JSON" {
				return
			}
			gone, err := client.Remove(t.Context(), "s1", "0815")
			g.Expect(gone).To(BeFalse())
			g.Expect(err == nil || errors.Is(err, localclusters.ErrUnavailable)).To(BeTrue(), "%v", err)
		})
	}
}

func TestWhatCannotBeRight(t *testing.T) {
	other, otherKey := testenv.AgentCredential(t, "s2", time.Now().Add(time.Hour))
	old, oldKey := testenv.AgentCredential(t, "s1", time.Now().Add(-time.Hour))
	for name, test := range map[string]struct {
		change func(*localclusters.Desired)
		field  string
	}{
		"all well":            {func(*localclusters.Desired) {}, ""},
		"an update":           {func(d *localclusters.Desired) { d.Certificate, d.Key = nil, nil }, ""},
		"a version":           {func(d *localclusters.Desired) { d.ControlPlaneVersion = "v1.36.2" }, ""},
		"no version":          {func(d *localclusters.Desired) { d.ControlPlaneVersion = "latest" }, "controlPlaneVersion"},
		"memory":              {func(d *localclusters.Desired) { d.Resources.RequestsMemory = "1Gi" }, ""},
		"no quantity":         {func(d *localclusters.Desired) { d.Resources.RequestsMemory = "much" }, "resources.requestsMemory"},
		"less than nothing":   {func(d *localclusters.Desired) { d.Resources.LimitsCPU = "-1" }, "resources.limitsCPU"},
		"no UID":              {func(d *localclusters.Desired) { d.UID = "" }, "uid"},
		"a path for a UID":    {func(d *localclusters.Desired) { d.UID = "../x" }, "uid"},
		"in the clear":        {func(d *localclusters.Desired) { d.Hub.Server = "http://127.0.0.1" }, "hub.server"},
		"no authority":        {func(d *localclusters.Desired) { d.Hub.CA = []byte("x") }, "hub.ca"},
		"another's":           {func(d *localclusters.Desired) { d.Certificate, d.Key = other, otherKey }, "certificate"},
		"another's key":       {func(d *localclusters.Desired) { d.Key = otherKey }, "certificate"},
		"a certificate alone": {func(d *localclusters.Desired) { d.Key = nil }, "certificate"},
		"expired":             {func(d *localclusters.Desired) { d.Certificate, d.Key = old, oldKey }, "certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			g, d := NewWithT(t), desired(t, "s1")
			test.change(&d)
			err := d.Validate("s1", time.Now())
			if test.field == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(localclusters.ReasonOf(err)).To(Equal(localclusters.Invalid))
			g.Expect(err).To(MatchError(HavePrefix(test.field + ": ")))
		})
	}
	d := desired(t, "s1")
	NewWithT(t).Expect(d.Validate("../s1", time.Now())).To(MatchError(HavePrefix("name: ")))
}
