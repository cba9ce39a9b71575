package hollownode_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/hollownode"
)

func valid() hollownode.Configuration {
	return hollownode.Configuration{
		NodeName: "workers-x-1", ProviderID: "hollowfleet://c1/workers-x-1", KubeletVersion: "v1.36.2",
		Labels: map[string]string{"pool": "workers"}, Taints: []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}},
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"),
		},
		MaxPods: 110, StartupDelay: metav1.Duration{Duration: 3 * time.Second},
	}
}

func TestWhatTheAgentWritesTheHollowNodeReads(t *testing.T) {
	content, err := hollownode.Marshal(valid())
	if err != nil {
		t.Fatal(err)
	}
	got, err := hollownode.Parse(content)
	if err != nil {
		t.Fatal(err)
	}
	want := valid()
	want.APIVersion, want.Kind = hollownode.APIVersion, hollownode.Kind
	if !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for field := range reflect.TypeFor[hollownode.Configuration]().Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name == "" {
			t.Errorf("field %s has no JSON name", field.Name)
		}
	}
}

func TestMarshalRefusesWhatDescribesNoNode(t *testing.T) {
	for field, spoil := range map[string]func(*hollownode.Configuration){
		"nodeName":           func(c *hollownode.Configuration) { c.NodeName = "" },
		"providerID":         func(c *hollownode.Configuration) { c.ProviderID = "" },
		"capacity.cpu":       func(c *hollownode.Configuration) { delete(c.Capacity, corev1.ResourceCPU) },
		"capacity.memory":    func(c *hollownode.Configuration) { c.Capacity[corev1.ResourceMemory] = resource.MustParse("0") },
		"maxPods":            func(c *hollownode.Configuration) { c.MaxPods = 0 },
		"startupDelay":       func(c *hollownode.Configuration) { c.StartupDelay.Duration = -time.Second },
		"csiDrivers[0].name": func(c *hollownode.Configuration) { c.CSIDrivers = []hollownode.CSIDriver{{}} },
		"csiDrivers[0].maxVolumesPerNode": func(c *hollownode.Configuration) {
			c.CSIDrivers = []hollownode.CSIDriver{{Name: "csi.example.com", MaxVolumesPerNode: -1}}
		},
		"unhealthy: healthyFor": func(c *hollownode.Configuration) {
			c.Unhealthy = &hollownode.Unhealthy{HealthyFor: metav1.Duration{Duration: -1}}
		},
		"unhealthy: unhealthyFor": func(c *hollownode.Configuration) {
			c.Unhealthy = &hollownode.Unhealthy{UnhealthyFor: metav1.Duration{Duration: time.Millisecond}}
		},
	} {
		t.Run(field, func(t *testing.T) {
			c := valid()
			spoil(&c)
			if _, err := hollownode.Marshal(c); err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("got %v, want an error that names %s", err, field)
			}
		})
	}
}

func TestParseRefusesWhatItDoesNotKnow(t *testing.T) {
	content, err := hollownode.Marshal(valid())
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ content, want string }{
		"unknown field":   {strings.Replace(string(content), `"maxPods"`, `"maxPodz"`, 1), "maxPodz"},
		"another version": {strings.Replace(string(content), "v1alpha1", "v9", 1), "apiVersion"},
		"no JSON":         {"maxPods: 5", "parsing"},
		"text behind it":  {string(content) + "{}", "after the end"},
		"empty":           {"", "parsing"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := hollownode.Parse([]byte(test.content)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}
