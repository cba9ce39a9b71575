package v1alpha1

// Conditions have positive polarity: True is the state that a user hopes for. The exceptions are Frozen, Stale, Reconciling
// and Stalled, whose names are the field's terms. Unknown means that no controller or agent has reported it; it is never
// turned into False for lack of news.

// Condition types that several kinds share.
const (
	// ReadyCondition sums an object's other conditions up; it is computed and never set by a step.
	ReadyCondition = "Ready"
	// ReconcilingCondition is True while the object is not as its spec says, or that cannot be known, and no user
	// has to act for that. Absent otherwise. Tools that use the kstatus library, such as Flux and Helm, show such an object
	// as in progress.
	ReconcilingCondition = "Reconciling"
	// StalledCondition is True while the object is not as its spec says until a user changes something; reason and message
	// say what. Absent otherwise, and never there beside ReconcilingCondition. The same tools show the object as failed.
	StalledCondition = "Stalled"
	// FrozenCondition is True while nothing may be created, changed or deleted for the object; its reason
	// says why. Missing or False otherwise.
	FrozenCondition = "Frozen"
)

// Condition types of a Cluster.
const (
	// ClusterAcceptedCondition: the user lets this cluster join. Written by the hub.
	ClusterAcceptedCondition = "Accepted"
	// ClusterJoinedCondition: an agent has reported at least once. Written by the hub.
	ClusterJoinedCondition = "Joined"
	// ClusterAgentConnectedCondition: the agent renews its Lease; Unknown when it stopped. Written by the hub.
	ClusterAgentConnectedCondition = "AgentConnected"
	// ClusterTargetReachableCondition: the agent reaches its workload cluster's API server. Unknown while an agent that
	// has just started has not looked yet, unless it was False before. Written by the agent.
	ClusterTargetReachableCondition = "TargetReachable"
	// ClusterAgentFrozenCondition: the agent acts on nothing, because one of the two API servers is not
	// proven healthy. Unknown freezes the cluster too. Written by the agent; the hub's view is FrozenCondition.
	ClusterAgentFrozenCondition = "AgentFrozen"
	// ClusterMirroredCondition is False while the hub cannot show the cluster in Open Cluster Management, because another's
	// ManagedCluster has its name or the API server refuses the mirror. Absent otherwise. Written by the hub.
	ClusterMirroredCondition = "Mirrored"
	// ClusterDisruptionAllowedCondition: every disruption budget that covers a pod on the Node of a Machine allows an eviction.
	// False while some do not, however long one waits or since half a minute; the message names them. Written by the agent.
	ClusterDisruptionAllowedCondition = "DisruptionAllowed"
	// ClusterObjectsDecodedCondition is False while the hub cannot decode objects in the cluster's namespace, which it then
	// leaves alone; the message names them. Absent otherwise. Written by the hub.
	ClusterObjectsDecodedCondition = "ObjectsDecoded"
	// ClusterSimulatedClustersAllowedCondition: the agent runs SimulatedClusters. False while the cluster's administrator has not turned
	// that on. Written by the agent.
	ClusterSimulatedClustersAllowedCondition = "SimulatedClustersAllowed"
)

// Condition types of a SimulatedCluster and its set. All are written by the hub, but for ControlPlaneReady.
const (
	// ClusterCreatedCondition: the Cluster of the SimulatedCluster's name exists and was made for it.
	ClusterCreatedCondition = "ClusterCreated"
	// ControlPlaneReadyCondition: the control plane runs as the spec says, and answers. Written by the host's agent.
	ControlPlaneReadyCondition = "ControlPlaneReady"
	// ClusterReadyCondition repeats the Ready condition of that Cluster.
	ClusterReadyCondition = "ClusterReady"
	// MachineDeploymentsCreatedCondition: the MachineClasses and MachineDeployments that the SimulatedCluster starts with were created.
	// Absent if it has none.
	MachineDeploymentsCreatedCondition = "MachineDeploymentsCreated"
	// MachinesRemovedCondition, on a SimulatedCluster that is being deleted: its Machines are gone, so that the host's agent may remove the
	// control plane. Absent otherwise. It stays True once it was.
	MachinesRemovedCondition = "MachinesRemoved"
	// HostsAvailableCondition: a Cluster can host further SimulatedClusters of the set.
	HostsAvailableCondition = "HostsAvailable"
)

// Condition types of a Machine. All are written by the agent, but for Stale.
const (
	// MachineStaleCondition is True while the state of the Machine is not known: its agent is silent (AgentSilent),
	// does not reach the workload cluster (TargetUnreachable), or its Cluster was removed (ClusterNotFound). All else in its status is what was known last. Absent
	// otherwise. Written by the hub.
	MachineStaleCondition = "Stale"
	// MachinePodRunningCondition: the hollow-node pod runs (provider hollow), or the instance of another
	// provider does.
	MachinePodRunningCondition = "PodRunning"
	// MachineNodeReadyCondition repeats the Node's own Ready condition.
	MachineNodeReadyCondition = "NodeReady"
	// MachineConfigurationValidCondition: the provider could read spec and provider configuration.
	MachineConfigurationValidCondition = "ConfigurationValid"
	// MachineHealthyCondition: the Node is Ready and has none of the listed bad conditions; False since the time
	// from which the health timeout counts.
	MachineHealthyCondition = "Healthy"
	// MachineUpdatedCondition: the instance was made from the Machine's current spec. False while it waits for
	// its turn, is drained, or is updated; its reason says which.
	MachineUpdatedCondition = "Updated"
	// MachineDrainedCondition tells how the drain before a deletion or an update goes. Absent when nothing is
	// to be drained.
	MachineDrainedCondition = "Drained"
	// MachineSchedulableCondition is False while the Machine's Node is cordoned; its message says by whom. Absent
	// otherwise.
	MachineSchedulableCondition = "Schedulable"
)

// Condition types of a MachineSet and a MachineDeployment, with the meaning of apps/v1. Written by the hub.
const (
	AvailableCondition = "Available"
	// ProgressingCondition is on MachineDeployments and MachineFleets only.
	ProgressingCondition = "Progressing"
	// ReplicaFailureCondition is True when Machines cannot be created or deleted.
	ReplicaFailureCondition = "ReplicaFailure"
	// RemediationAllowedCondition is False when more Machines are unhealthy than maxUnhealthy allows, so that
	// nothing is replaced; its message lists them and asks for a person.
	RemediationAllowedCondition = "RemediationAllowed"
)
