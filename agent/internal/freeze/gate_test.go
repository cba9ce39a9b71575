package freeze

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	driverfake "github.com/hollowfleet/hollowfleet/agent/driver/fake"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func mapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	return mapper
}

// frozenWorld is a Checker that is always frozen.
type frozenWorld struct{}

func (frozenWorld) Check() error { return &Error{Reason: v1alpha1.ReasonHubUnreachable} }

func frozenGate() *Gate { return NewGate(frozenWorld{}, NewMetrics(prometheus.NewRegistry())) }

// These are all the methods that change nothing. A method that is not among them, such as one that a new version
// of a library adds, counts as one that changes something, and must refuse while frozen.
var (
	readingClient = []string{"Get", "List", "Scheme", "RESTMapper", "GroupVersionKindFor", "IsObjectNamespaced", "Status", "SubResource"}
	readingDriver = []string{"Get", "List", "CheckUpdate"}
	readingSub    = []string{"Get"}
)

// expectRefusals calls every method of the interface T on value that is not in reading, and expects each to refuse.
func expectRefusals[T any](t *testing.T, value T, reading []string) {
	t.Helper()
	of := reflect.TypeFor[T]()
	refusing := 0
	for i := range of.NumMethod() {
		method := of.Method(i)
		if slices.Contains(reading, method.Name) {
			continue
		}
		refusing++
		t.Run(of.Name()+"."+method.Name, func(t *testing.T) {
			results := reflect.ValueOf(value).MethodByName(method.Name).Call(arguments(method.Type))
			err, _ := results[len(results)-1].Interface().(error)
			var frozen *Error
			if !errors.As(err, &frozen) {
				t.Errorf("a frozen agent could call %s.%s: it returned %v", of.Name(), method.Name, err)
			}
		})
	}
	if refusing == 0 {
		t.Errorf("%s has no method that changes anything: the test looks at the wrong thing", of.Name())
	}
}

// arguments makes arguments with which a method that goes through would do something or fail, but not panic early.
func arguments(method reflect.Type) []reflect.Value {
	var values []reflect.Value
	for i := range method.NumIn() {
		if method.IsVariadic() && i == method.NumIn()-1 {
			break
		}
		values = append(values, argument(method.In(i)))
	}
	return values
}

func argument(of reflect.Type) reflect.Value {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = "default", "p"
	for _, candidate := range []any{context.Background(), pod, client.RawPatch("application/merge-patch+json", []byte("{}")), &v1alpha1.Machine{}} {
		if reflect.TypeOf(candidate).AssignableTo(of) {
			return reflect.ValueOf(candidate)
		}
	}
	return reflect.Zero(of)
}

// untouchable is a client that fails the test when anything is changed through it.
func untouchable(t *testing.T) client.Client {
	touched := func() error {
		t.Error("a change went through the gate")
		return nil
	}
	base := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithRESTMapper(mapper()).Build()
	return interceptor.NewClient(base, interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return touched() },
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return touched() },
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return touched() },
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return touched()
		},
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			return touched()
		},
		DeleteAllOf: func(context.Context, client.WithWatch, client.Object, ...client.DeleteAllOfOption) error {
			return touched()
		},
		SubResourceCreate: func(context.Context, client.Client, string, client.Object, client.Object, ...client.SubResourceCreateOption) error {
			return touched()
		},
		SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
			return touched()
		},
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return touched()
		},
		SubResourceApply: func(context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
			return touched()
		},
	})
}

func TestNothingChangesWhileFrozen(t *testing.T) {
	gate := frozenGate()
	gated := gate.Client(untouchable(t))
	expectRefusals[client.Client](t, gated, readingClient)
	expectRefusals[client.SubResourceWriter](t, gated.Status(), nil)
	for _, name := range []string{"eviction", "token", "approval", "status"} {
		expectRefusals[client.SubResourceClient](t, gated.SubResource(name), readingSub)
	}
	expectRefusals[client.Client](t, gate.HubClient(untouchable(t)), readingClient)
	expectRefusals[client.SubResourceClient](t, gate.HubClient(untouchable(t)).SubResource("status"), readingSub)

	inner := driverfake.New("c1")
	expectRefusals[driver.Driver](t, gate.Driver(inner), readingDriver)
	if calls := inner.Calls(); len(calls) > 0 {
		t.Errorf("calls went through the gate: %v", calls)
	}
}

func TestReadsGoOnWhileFrozen(t *testing.T) {
	namespace := &corev1.Namespace{}
	namespace.Name = "kube-system"
	base := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(namespace).WithStatusSubresource(namespace).Build()
	gated := frozenGate().Client(base)
	if err := gated.Get(context.Background(), client.ObjectKeyFromObject(namespace), namespace); err != nil {
		t.Errorf("Get: %v", err)
	}
	if err := gated.List(context.Background(), &corev1.NamespaceList{}); err != nil {
		t.Errorf("List: %v", err)
	}
	inner := driverfake.New("c1")
	inner.Add("m1")
	if all, err := frozenGate().Driver(inner).List(context.Background()); err != nil || len(all) != 1 {
		t.Errorf("driver List: %v, %v", all, err)
	}
}

func TestStatusGoesToTheHubWhileFrozen(t *testing.T) {
	namespace := &corev1.Namespace{}
	namespace.Name = "kube-system"
	base := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(namespace).WithStatusSubresource(namespace).Build()
	namespace.Status.Phase = corev1.NamespaceActive
	if err := frozenGate().HubClient(base).Status().Update(context.Background(), namespace); err != nil {
		t.Errorf("writing status to the hub: %v", err)
	}
}

func TestChangesGoThroughWhenThawed(t *testing.T) {
	gate := NewGate(thawedWorld{}, NewMetrics(prometheus.NewRegistry()))
	base := fake.NewClientBuilder().WithScheme(scheme.Scheme).Build()
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = "default", "p"
	if err := gate.Client(base).Create(context.Background(), pod); err != nil {
		t.Errorf("Create: %v", err)
	}
	inner := driverfake.New("c1")
	machine := &v1alpha1.Machine{}
	machine.Name = "m1"
	if _, err := gate.Driver(inner).Create(context.Background(), driver.Request{Machine: machine}); err != nil {
		t.Errorf("driver Create: %v", err)
	}
}

type thawedWorld struct{}

func (thawedWorld) Check() error { return nil }

// served is a RoundTripper that answers everything and counts.
type served struct{ methods []string }

func (s *served) RoundTrip(request *http.Request) (*http.Response, error) {
	s.methods = append(s.methods, request.Method)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func TestRoundTripperOnlyReadsWhileFrozen(t *testing.T) {
	inner := &served{}
	client := &http.Client{Transport: frozenGate().RoundTripper(inner)}
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "ANYTHING"} {
		request, err := http.NewRequestWithContext(t.Context(), method, "http://localhost/", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err == nil {
			_ = response.Body.Close()
			continue
		}
		var frozen *Error
		if !errors.As(err, &frozen) {
			t.Errorf("%s: %v is no freeze error", method, err)
		}
	}
	if want := []string{"GET", "HEAD", "OPTIONS"}; !slices.Equal(inner.methods, want) {
		t.Errorf("a frozen agent sent %v, want %v", inner.methods, want)
	}
}
