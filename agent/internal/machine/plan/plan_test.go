package plan

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const id = "hollowfleet://c1/m1"

func observation(change func(*Observation)) Observation {
	machine := &v1alpha1.Machine{}
	machine.Finalizers = []string{v1alpha1.MachineFinalizer}
	node := &corev1.Node{Spec: corev1.NodeSpec{ProviderID: id}}
	o := Observation{
		Machine: machine, InstanceKnown: true, NodeKnown: true, MayRepair: true, ProviderID: id, Node: node,
		Instance: &Instance{State: Running, UpToDate: true},
	}
	machine.Spec.ProviderID = ptr.To(id)
	change(&o)
	return o
}

func TestDecide(t *testing.T) {
	missing := func(o *Observation) { o.Instance, o.Node, o.Machine.Spec.ProviderID = nil, nil, nil }
	tests := map[string]struct {
		change func(*Observation)
		want   []Action
	}{
		"should do nothing when all is well": {func(*Observation) {}, nil},
		"should create what is missing":      {missing, []Action{CreateInstance}},
		"should add the finalizer before it creates anything": {
			func(o *Observation) { missing(o); o.Machine.Finalizers = nil }, []Action{AddFinalizer, CreateInstance},
		},
		"should not write a finalizer when it creates nothing": {func(o *Observation) { o.Machine.Finalizers = nil }, nil},
		"should create nothing of an invalid machine":          {func(o *Observation) { missing(o); o.Terminal = &Terminal{} }, nil},
		"should create nothing when it cannot see":             {func(o *Observation) { missing(o); o.InstanceKnown = false }, nil},
		"should create again what was lost":                    {func(o *Observation) { o.Instance = nil }, []Action{CreateInstance}},
		"should update what is out of date":                    {func(o *Observation) { o.Instance.UpToDate = false }, []Action{UpdateInstance}},
		"should update nothing with an invalid configuration": {
			func(o *Observation) { o.Instance.UpToDate, o.Terminal = false, &Terminal{} }, nil,
		},
		"should remove what has ended": {func(o *Observation) { o.Instance.State = Failed }, []Action{RemoveInstance}},
		"should wait when it has ended too often": {
			func(o *Observation) { o.Instance.State, o.MayRepair = Failed, false }, nil,
		},
		"should leave what tries by itself": {func(o *Observation) { o.Instance.State = Failing }, nil},
		"should wait for what is being deleted": {
			func(o *Observation) { o.Instance.State, o.Instance.UpToDate = Deleting, false }, nil,
		},
		"should bring the node in line": {func(o *Observation) { o.NodeDiffers = true }, []Action{SyncNode}},
		"should bring the node in line although the class is missing": {
			func(o *Observation) { o.NodeDiffers, o.Terminal = true, &Terminal{} }, []Action{SyncNode},
		},
		"should not write invalid labels to the node": {
			func(o *Observation) { o.NodeDiffers, o.Terminal = true, &Terminal{Node: true} }, nil,
		},
		"should set the provider ID when the node has joined": {
			func(o *Observation) { o.Machine.Spec.ProviderID, o.NodeDiffers = nil, true }, []Action{SyncNode, SetProviderID},
		},
		"should not set a provider ID that does not match": {
			func(o *Observation) { o.Machine.Spec.ProviderID, o.Node.Spec.ProviderID = nil, "other://" }, nil,
		},
		"should not set an empty provider ID": {
			func(o *Observation) { o.Machine.Spec.ProviderID, o.Node.Spec.ProviderID, o.ProviderID = nil, "", "" }, nil,
		},
		"should do nothing while frozen": {
			func(o *Observation) {
				missing(o)
				o.Frozen, o.NodeDiffers, o.Machine.Finalizers = true, true, nil
			}, nil,
		},
		"should do nothing to a node while frozen": {
			func(o *Observation) { o.Frozen, o.NodeDiffers, o.Machine.Spec.ProviderID = true, true, nil }, nil,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Decide(observation(test.change)); !slices.Equal(got, test.want) {
				t.Errorf("Decide = %v, want %v", got, test.want)
			}
		})
	}
}

func TestLost(t *testing.T) {
	tests := map[string]struct {
		change func(*Observation)
		want   bool
	}{
		"should not be lost while it is there":         {func(*Observation) {}, false},
		"should be lost when it is gone":               {func(o *Observation) { o.Instance = nil }, true},
		"should not be lost when nobody knows":         {func(o *Observation) { o.Instance, o.InstanceKnown = nil, false }, false},
		"should not be lost before it has ever joined": {func(o *Observation) { o.Instance, o.Machine.Spec.ProviderID = nil, nil }, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Lost(observation(test.change)); got != test.want {
				t.Errorf("Lost = %t, want %t", got, test.want)
			}
		})
	}
}
