package machine

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
	node.Status.NodeInfo.KubeletVersion = "v1.37.1"
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	o := Observation{
		Machine: machine, InstanceKnown: true, NodeKnown: true, MayRepair: true, ProviderID: id, Node: node,
		Instance: &Instance{State: Running, UpToDate: true},
	}
	machine.Spec.ProviderID = ptr.To(id)
	change(&o)
	return o
}

// updating makes o an update in place that is under way: the node is cordoned, the instance out of date.
func updating(o *Observation) {
	o.Instance.UpToDate, o.Node.Spec.Unschedulable, o.Update.Cordoned = false, true, true
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
		"should create nothing beside a node of its name that it did not make": {
			func(o *Observation) { missing(o); o.NodeConflict = "a Node exists" }, nil,
		},
		"should create nothing while the node of its name cannot be seen": {func(o *Observation) { missing(o); o.NodeKnown = false }, nil},
		"should update nothing beside a node of its name that it did not make": {
			func(o *Observation) { o.Instance.UpToDate, o.Node, o.NodeConflict = false, nil, "a Node exists" }, nil,
		},
		"should leave a node as it is that no driver has proven to be its own": {
			func(o *Observation) { o.Instance, o.InstanceKnown, o.NodeDiffers = nil, false, true }, nil,
		},
		"should create again what was lost": {func(o *Observation) { o.Instance = nil }, []Action{CreateInstance}},
		"should empty the node of what is out of date, and update it": {
			func(o *Observation) { o.Instance.UpToDate = false }, []Action{CordonNode, DrainNode, UpdateInstance},
		},
		"should leave a node cordoned that a user cordoned": {
			func(o *Observation) { o.Instance.UpToDate, o.Node.Spec.Unschedulable = false, true }, []Action{DrainNode, UpdateInstance},
		},
		"should not drain when the class says so": {
			func(o *Observation) { o.Instance.UpToDate, o.Limits.SkipDrain = false, true }, []Action{UpdateInstance},
		},
		"should update what has no node without a drain": {
			func(o *Observation) { o.Instance.UpToDate, o.Node = false, nil }, []Action{UpdateInstance},
		},
		"should update what has not joined without a drain": {
			func(o *Observation) { o.Instance.UpToDate, o.Machine.Spec.ProviderID = false, nil }, []Action{SetProviderID, UpdateInstance},
		},
		"should not update when it cannot see the node": {
			func(o *Observation) { o.Instance.UpToDate, o.Node, o.NodeKnown = false, nil, false }, nil,
		},
		"should drain nothing that the driver cannot update": {
			func(o *Observation) { o.Instance.UpToDate, o.Update.Unsupported = false, "no way" }, nil,
		},
		"should give the node back when the driver turns out not to update": {
			func(o *Observation) {
				o.Instance.UpToDate, o.Update = false, Update{Unsupported: "no way", Cordoned: true}
			}, []Action{UncordonNode},
		},
		"should wait for its turn":                         {func(o *Observation) { o.Instance.UpToDate, o.Update.Waiting = false, "others" }, nil},
		"should continue with an update that has started":  {func(o *Observation) { updating(o); o.Update.Waiting = "others" }, []Action{DrainNode, UpdateInstance}},
		"should make again what the update has taken away": {func(o *Observation) { updating(o); o.Instance = nil }, []Action{CreateInstance}},
		"should wait for the node after the update": {
			func(o *Observation) { updating(o); o.Instance.UpToDate, o.Node.Status.Conditions = true, nil }, nil,
		},
		"should wait for the version after the update": {
			func(o *Observation) {
				updating(o)
				o.Instance.UpToDate, o.Machine.Spec.Versions.Kubelet = true, "1.36.0"
			}, nil,
		},
		"should give the node back when the update is through": {
			func(o *Observation) {
				updating(o)
				o.Instance.UpToDate, o.Machine.Spec.Versions.Kubelet = true, "1.37.1"
			}, []Action{UncordonNode},
		},
		"should give the node back when the update turns invalid": {
			func(o *Observation) { updating(o); o.Terminal = &Terminal{} }, []Action{UncordonNode},
		},
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
		"should not be lost when it is not known":      {func(o *Observation) { o.Instance, o.InstanceKnown = nil, false }, false},
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
