package loadtest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest/confine"
	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest/measurement"
	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest/template"
	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// answering is a server whose every answer has size bytes, but that /missing is not there, and the clients of a load test for it.
func answering(t *testing.T, size int) *clients.Load {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/missing" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))
			return
		}
		part := make([]byte, 1<<16)
		for range size / len(part) {
			_, _ = w.Write(part)
		}
	}))
	t.Cleanup(server.Close)
	through := func(inner http.RoundTripper) http.RoundTripper { return inner }
	load, err := clients.NewLoad(&rest.Config{Host: server.URL}, through, through)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return load
}

// allocated is how many bytes a function takes from the heap.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Claim: Answers to load test requests are not kept. Broken: answers read whole; those of Get, or of Delete, read whole. Also: TestNoActionKeepsItsAnswers.
func TestAnswersAreNotKept(t *testing.T) {
	g := NewWithT(t)
	const size = 256 << 20
	load := answering(t, size)
	taken := allocated(func() {
		g.Expect(discardAnswer(t.Context(), load.Requests.Get().AbsPath("/list"))).To(Succeed())
	})
	g.Expect(taken).To(BeNumerically("<", 16<<20), "of an answer of %d bytes", size)
	g.Expect(apierrors.IsNotFound(discardAnswer(t.Context(), load.Requests.Get().AbsPath("/missing")))).To(BeTrue(), "errors are those of the API server")
}

// Each action of a phase reads its answers so: a deletion is answered with the whole object, too.
func TestNoActionKeepsItsAnswers(t *testing.T) {
	const size = 64 << 20
	for name, do := range map[string]func(context.Context, *phase, *measurement.Object){
		"create": func(ctx context.Context, p *phase, _ *measurement.Object) {
			p.createOne(ctx, measurement.SentRequest{}, "load-00000000-0")
		},
		"get": func(ctx context.Context, p *phase, o *measurement.Object) {
			p.getOne(ctx, measurement.SentRequest{}, o)
		},
		"list": func(ctx context.Context, p *phase, o *measurement.Object) {
			p.listOne(ctx, measurement.SentRequest{}, o.Namespace)
		},
		"patch": func(ctx context.Context, p *phase, o *measurement.Object) {
			p.patchOne(ctx, measurement.SentRequest{}, o, 0)
		},
		"delete": func(ctx context.Context, p *phase, o *measurement.Object) {
			p.deleteOne(ctx, measurement.SentRequest{}, o)
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			run := &v1alpha1.LoadTestRun{}
			run.Spec.Templates = []v1alpha1.LoadTemplate{{Name: "t", Object: configMap}}
			limits, err := confine.Limits{}.Complete()
			g.Expect(err).NotTo(HaveOccurred())
			templates, err := template.Check(t.Context(), nil, run, limits)
			g.Expect(err).NotTo(HaveOccurred())
			template := templates["t"]
			template.Resource = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
			e := &engine{deps: Deps{Runtime: poll.Runtime{Clock: clock.RealClock{}}}, load: answering(t, size), Meter: measurement.New(run, clock.RealClock{}, nil)}
			p := &phase{engine: e, spec: &v1alpha1.LoadPhase{}, template: template}
			o := e.Book.RegisterObject(template, "load-00000000-0")
			e.MarkCreated(o, e.deps.Clock.Now())
			taken := allocated(func() { do(t.Context(), p, o) })
			g.Expect(taken).To(BeNumerically("<", 16<<20), "of an answer of %d bytes", size)
			g.Expect(e.Recorder.Requests.Load()).To(BeEquivalentTo(1), "it was made")
		})
	}
}
