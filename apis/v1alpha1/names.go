package v1alpha1

// Labels.
const (
	// ClusterNameLabel names the Cluster that an object belongs to. Written by the hub on the cluster's
	// namespace and on every Machine, MachineSet and MachineDeployment it creates.
	ClusterNameLabel = "hollowfleet.io/cluster-name"
	// MachineSetNameLabel names the MachineSet that made a Machine. Written by the hub.
	MachineSetNameLabel = "hollowfleet.io/machine-set-name"
	// MachineDeploymentNameLabel names the MachineDeployment above a MachineSet or Machine. Written by the hub.
	MachineDeploymentNameLabel = "hollowfleet.io/machine-deployment-name"
	// MachineTemplateHashLabel tells the MachineSets of one MachineDeployment, and their Machines, apart.
	// Written by the hub.
	MachineTemplateHashLabel = "hollowfleet.io/machine-template-hash"
	// ManagedByLabel with the value ManagedByHub marks what the hub created and may therefore change.
	ManagedByLabel = "hollowfleet.io/managed-by"
	// MachineNameLabel names the Machine that a pod or Secret of the workload cluster serves. Written by the agent.
	MachineNameLabel = "hollowfleet.io/machine-name"

	// HollowNodeLabel with the value "true" is on every Node that a hollow-node registers.
	HollowNodeLabel = "hollowfleet.io/hollow"
	// KubeletVersionSourceLabel, on a Node, tells whether the kubelet version that it reports is that of the
	// code which runs (KubeletVersionBuiltIn) or only reported (KubeletVersionReported).
	KubeletVersionSourceLabel = "hollowfleet.io/kubelet-version-source"
	// NodeRoleLabelPrefix, followed by a role of spec.roles, is put on the Node by the agent.
	NodeRoleLabelPrefix = "node-role.kubernetes.io/"

	// AutoscalerDeploymentNameLabel is what cluster-autoscaler's clusterapi provider reads on a MachineSet
	// to tell that a MachineDeployment is rolling out. Written by the hub.
	AutoscalerDeploymentNameLabel = "cluster.x-k8s.io/deployment-name"
)

// Label values.
const (
	ManagedByHub           = "hub"
	KubeletVersionBuiltIn  = "BuiltIn"
	KubeletVersionReported = "Reported"
)

// Annotations.
const (
	// RevisionAnnotation is the revision of a MachineDeployment's template: "1", "2", … Written by the hub
	// on the MachineDeployment and its MachineSets.
	RevisionAnnotation = "hollowfleet.io/revision"
	// AutoscalerRevisionAnnotation repeats RevisionAnnotation on a MachineSet under the name that
	// cluster-autoscaler's clusterapi provider reads. Written by the hub.
	AutoscalerRevisionAnnotation = "machinedeployment.clusters.x-k8s.io/revision"
	// DeleteMachineAnnotation marks the Machine that a scale-down takes first. Written by cluster-autoscaler
	// or a user.
	DeleteMachineAnnotation = "hollowfleet.io/delete-machine"
	// NodeMachineAnnotation, on a Node, names its Machine. Written by the agent.
	NodeMachineAnnotation = "hollowfleet.io/machine"
	// NodeClusterNamespaceAnnotation, on a Node, names its Machine's namespace on the hub. Written by the agent.
	NodeClusterNamespaceAnnotation = "hollowfleet.io/cluster-namespace"
	// NodeAppliedTaintsAnnotation, on a Node, lists the taints that the agent put there, so that it takes
	// away only its own when spec.taints changes. Written by the agent.
	NodeAppliedTaintsAnnotation = "hollowfleet.io/applied-taints"
	// FreezeAnnotation, set by a user on a Cluster, MachineSet or MachineDeployment, freezes it; the value is
	// the reason and is shown in the Frozen condition. Removing it ends that freeze.
	FreezeAnnotation = "hollowfleet.io/freeze"
	// ExitAfterAnnotation and ExitCodeAnnotation, on a pod that runs on a hollow node, let its containers end
	// after a duration such as "30s", with an exit code (default 0). Written by users.
	ExitAfterAnnotation = "hollowfleet.io/exit-after"
	ExitCodeAnnotation  = "hollowfleet.io/exit-code"
)

// Finalizers, and the names and group of identities.
const (
	// MachineFinalizer keeps a Machine until its agent has removed pod, Node and credentials. Written by the
	// MachineSet controller at creation, else by the agent before it creates anything; removed by the agent.
	MachineFinalizer = "hollowfleet.io/agent"
	// ClusterFinalizer keeps a Cluster until the hub has dealt with its namespace. Written by the hub.
	ClusterFinalizer = "hollowfleet.io/hub"

	// HollowHostTaint (NoSchedule) keeps ordinary pods off hosts that are dedicated to hollow-node pods;
	// hollow-node pods tolerate it in every cluster.
	HollowHostTaint = "hollowfleet.io/hollow-host"

	// AgentLeaseName is the Lease in the cluster's namespace on the hub that its agent renews.
	AgentLeaseName = "hollowfleet-agent"
	// AgentGroupPrefix, followed by the cluster's name, is the group of the identity that a cluster's agent
	// uses on the hub.
	AgentGroupPrefix = "hollowfleet.io:cluster:"

	// ProviderHollow is the built-in provider: Machines become hollow-node pods.
	ProviderHollow = "hollow"
)
