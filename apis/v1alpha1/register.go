package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "hollowfleet.io", Version: "v1alpha1"}

var schemeBuilder = runtime.NewSchemeBuilder(func(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&Cluster{}, &ClusterList{},
		&MachineClass{}, &MachineClassList{},
		&Machine{}, &MachineList{},
		&MachineSet{}, &MachineSetList{},
		&MachineDeployment{}, &MachineDeploymentList{},
		&MachineFleet{}, &MachineFleetList{},
		&FleetApproval{}, &FleetApprovalList{},
		&NodeDisruption{}, &NodeDisruptionList{},
		&NodeDisruptionRun{}, &NodeDisruptionRunList{},
		&LoadTest{}, &LoadTestList{},
		&LoadTestRun{}, &LoadTestRunList{},
		&SimulatedCluster{}, &SimulatedClusterList{},
		&SimulatedClusterSet{}, &SimulatedClusterSetList{},
		&MachineLogRequest{}, &MachineLogRequestList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
})

// AddToScheme registers the kinds of this package.
var AddToScheme = schemeBuilder.AddToScheme
