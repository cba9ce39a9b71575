package foreignkinds

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/time/rate"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const patience = 2 * time.Minute

func TestADefinitionServesAKind(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*apiextensionsv1.CustomResourceDefinition)
		serves bool
	}{
		"established":     {func(*apiextensionsv1.CustomResourceDefinition) {}, true},
		"just created":    {func(d *apiextensionsv1.CustomResourceDefinition) { d.Status.Conditions = nil }, false},
		"not established": {func(d *apiextensionsv1.CustomResourceDefinition) { d.Status.Conditions[1].Status = "False" }, false},
		"being deleted":   {func(d *apiextensionsv1.CustomResourceDefinition) { d.DeletionTimestamp = &metav1.Time{} }, false},
		"another version": {func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Versions[1].Name = "v2" }, false},
		"version retired": {func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Versions[1].Served = false }, false},
	} {
		t.Run(name, func(t *testing.T) {
			definition := &apiextensionsv1.CustomResourceDefinition{}
			definition.UID = "u"
			definition.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1beta1", Served: true}, {Name: "v1", Served: true}}
			definition.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
				{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue}, {Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue},
			}
			row.change(definition)
			want := types.UID("")
			if row.serves {
				want = "u"
			}
			NewWithT(t).Expect(ManagedClusters.servedBy(definition)).To(Equal(want))
		})
	}
}

// Claim: A hub notices kinds that are installed, removed, replaced. Broken: what went before the watch began is missed; the UID is not compared; the end of the hub counts as a change.
func TestKindsComeAndGo(t *testing.T) {
	g := NewWithT(t)
	find := func() *Installed {
		t.Helper()
		found, err := Find(t.Context(), testenv.Server().Config)
		g.Expect(err).NotTo(HaveOccurred())
		return found
	}
	// await is what a Watcher returns, which must have something to see by itself.
	restarts := rate.NewLimiter(rate.Every(time.Hour), 5)
	await := func(known *Installed) <-chan error {
		ended := make(chan error, 1)
		go func() { ended <- Watcher{known, restarts}.Start(t.Context()) }()
		return ended
	}
	changed := func(ended <-chan error) {
		t.Helper()
		g.Eventually(ended).WithTimeout(patience).Should(Receive(MatchError(ErrChanged)))
	}
	none := find()
	g.Expect(none.Has(ManagedClusters)).To(BeFalse())
	running := await(none)
	g.Expect(testenv.ManagedClusters.Install(t.Context(), testenv.Server().Client)).To(Succeed())
	changed(running)
	changed(await(none))

	g.Eventually(func() bool { return find().Has(ManagedClusters) }).WithTimeout(patience).Should(BeTrue())
	first := find()
	g.Expect(first.Has(ManagedClusters, Placements)).To(BeFalse(), "one of two")
	running = await(first)
	g.Expect(testenv.ManagedClusters.Install(t.Context(), testenv.Server().Client)).To(Succeed())
	g.Consistently(running).WithTimeout(time.Second).ShouldNot(Receive(), "installed once more, which changes nothing")
	g.Expect(testenv.ManagedClusters.Uninstall(t.Context(), testenv.Server().Client)).To(Succeed())
	changed(running)
	changed(await(first))

	g.Expect(testenv.ManagedClusters.Install(t.Context(), testenv.Server().Client)).To(Succeed())
	g.Eventually(func() bool { return find().Has(ManagedClusters) }).WithTimeout(patience).Should(BeTrue())
	changed(await(first))
	g.Expect(first.Lost(t.Context(), ManagedClusters)).To(BeTrue(), "it is another of the same name")
	g.Expect(find().Lost(t.Context(), ManagedClusters)).To(BeFalse())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Watcher{first, restarts}.Start(ctx) }()
	g.Consistently(ended).WithTimeout(time.Second).ShouldNot(Receive(), "a sixth restart within the hour")
	cancel()
	g.Eventually(ended).WithTimeout(patience).Should(Receive(BeNil()))
}

// Edge case: No answer meant absent kinds. Broken: an answer that is no list counts as none.
func TestNoAnswerDoesNotMeanThatKindsAreGone(t *testing.T) {
	g := NewWithT(t)
	g.Expect(testenv.ManagedClusters.Install(t.Context(), testenv.Server().Client)).To(Succeed())
	status := atomic.Int32{}
	config := rest.CopyConfig(testenv.Server().Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(request)
			if now := int(status.Load()); err == nil && now != 0 {
				_ = response.Body.Close()
				response.StatusCode, response.Body = now, io.NopCloser(strings.NewReader(""))
			}
			return response, err
		})
	})
	var known *Installed
	g.Eventually(func(g Gomega) {
		var err error
		known, err = Find(t.Context(), config)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(known.Has(ManagedClusters)).To(BeTrue())
	}).WithTimeout(patience).Should(Succeed())
	for _, answer := range []int32{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusInternalServerError, http.StatusOK} {
		status.Store(answer)
		_, err := Find(t.Context(), config)
		g.Expect(err).To(HaveOccurred(), "%d", answer)
		g.Expect(known.Lost(t.Context(), ManagedClusters)).To(BeFalse(), "%d", answer)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
