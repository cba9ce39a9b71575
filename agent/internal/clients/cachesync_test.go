package clients_test

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

// noServer returns the address of an API server that closes every connection, and what receives when it does.
func noServer(t *testing.T) (address string, asked <-chan struct{}) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	hits := make(chan struct{}, 1)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_ = connection.Close()
			select {
			case hits <- struct{}{}:
			default:
			}
		}
	}()
	return "http://" + listener.Addr().String(), hits
}

func pods(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	return mapper, nil
}

func TestAManagerStopsBeforeItsCachesAreFilled(t *testing.T) {
	g := NewWithT(t)
	address, asked := noServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	made, err := manager.New(&rest.Config{Host: address}, manager.Options{
		Scheme: scheme.New(), MapperProvider: pods, NewCache: clients.NewCacheUntil(ctx),
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: config.Controller{CacheSyncTimeout: time.Hour, SkipNameValidation: ptr.To(true)},
	})
	g.Expect(err).NotTo(HaveOccurred())
	second, err := cluster.New(&rest.Config{Host: address}, func(o *cluster.Options) {
		o.Scheme, o.MapperProvider, o.NewCache = scheme.New(), pods, clients.NewCacheUntil(ctx)
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(made.Add(second)).To(Succeed())
	// A manager waits only for the kinds that were asked for before it starts, such as by an index.
	for _, indexer := range []client.FieldIndexer{made.GetFieldIndexer(), second.GetFieldIndexer()} {
		g.Expect(indexer.IndexField(t.Context(), &corev1.Pod{}, "none", func(client.Object) []string { return nil })).To(Succeed())
	}
	reconciled := false
	g.Expect(builder.ControllerManagedBy(made).For(&corev1.Pod{}).
		WatchesRawSource(source.Kind(second.GetCache(), &corev1.Pod{}, &handler.TypedEnqueueRequestForObject[*corev1.Pod]{})).
		Complete(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			reconciled = true
			return reconcile.Result{}, nil
		}))).To(Succeed())

	stopped := make(chan error, 1)
	go func() { stopped <- made.Start(ctx) }()
	g.Eventually(asked).WithTimeout(time.Minute).Should(Receive())
	g.Consistently(stopped).Should(BeEmpty(), "it waits for the API server")
	cancel()
	g.Eventually(stopped).WithTimeout(time.Minute).Should(Receive(BeNil()))
	g.Expect(reconciled).To(BeFalse())
}

func TestAnUnfilledCacheIsNotFilledForWhoWaitsAWhile(t *testing.T) {
	g := NewWithT(t)
	address, _ := noServer(t)
	unfilled, err := clients.NewCacheUntil(t.Context())(&rest.Config{Host: address}, cache.Options{Scheme: scheme.New()})
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	g.Expect(unfilled.WaitForCacheSync(ctx)).To(BeFalse())
}
