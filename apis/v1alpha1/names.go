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
	// MachineFleetNameLabel names the MachineFleet that a MachineDeployment, or a ControllerRevision with a template, belongs to. It is for selection only: nothing is
	// ever decided by it. Written by the hub.
	MachineFleetNameLabel = "hollowfleet.io/machine-fleet-name"
	// SimulatedClusterSetNameLabel names the SimulatedClusterSet that made a SimulatedCluster. Written by the hub.
	SimulatedClusterSetNameLabel = "hollowfleet.io/simulated-cluster-set-name"
	// MachineTemplateHashLabel tells the MachineSets of one MachineDeployment, and their Machines, apart.
	// Written by the hub.
	MachineTemplateHashLabel = "hollowfleet.io/machine-template-hash"
	// NodeDisruptionNameLabel, on a NodeDisruptionRun, names the NodeDisruption that it was made for.
	NodeDisruptionNameLabel = "hollowfleet.io/node-disruption-name"
	// NodeDisruptionPreviewLabel, on a NodeDisruptionRun, says that it only shows what would be hit, and never starts.
	NodeDisruptionPreviewLabel = "hollowfleet.io/node-disruption-preview"
	// CommandDryRunAnnotation, on a NodeDisruption, says that "kubectl hollow disrupt create --dry-run" has made it, under which name
	// and how long it needs it, such as "outage-dry-run-x7k2p 90s". The hub deletes it then, if it still is a dry run of that name.
	CommandDryRunAnnotation = "hollowfleet.io/command-dry-run"
	// LoadTestNameLabel, on a LoadTestRun and on the NodeDisruptionRun beside it, names the LoadTest that it was made for. Written by
	// the hub.
	LoadTestNameLabel = "hollowfleet.io/load-test-name"
	// LoadTestRunUIDLabel, on the namespaces and objects that a LoadTestRun made in its cluster, has its UID. Written by the agent,
	// which removes the namespaces that have it, and no others.
	LoadTestRunUIDLabel = "hollowfleet.io/load-test-run-uid"
	// LoadTemplateLabel, on an object that a LoadTestRun made, names its template. Written by the agent.
	LoadTemplateLabel = "hollowfleet.io/load-template"
	// ManagedByLabel with the value ManagedByHub marks what the hub created and may therefore change.
	ManagedByLabel = "hollowfleet.io/managed-by"
	// MachineNameLabel names the Machine that a pod or Secret of the workload cluster serves. Written by the agent.
	MachineNameLabel = "hollowfleet.io/machine-name"

	// FrozenLabel on a MachineSet or MachineDeployment has the reason of its Frozen condition while that is True. It is
	// for selection only: nothing is ever decided by it. Written by the hub.
	FrozenLabel = "hollowfleet.io/frozen"

	// UpdateInPlaceLabel with the value "true" on a Machine starts its update when its deployment's strategy is
	// InPlace with trigger Manual. Written by users, removed by the hub when the update starts.
	UpdateInPlaceLabel = "hollowfleet.io/update-in-place"
	// ForceDeletionLabel with the value "true" on a Machine lets its deletion continue without drain and hooks. On a SimulatedCluster, it
	// lets its deletion continue without its Machines. Written by users.
	ForceDeletionLabel = "hollowfleet.io/force-deletion"

	// ImportLabel with the value "true" on a ManagedCluster that Open Cluster Management has accepted lets the hub
	// take it on as a Cluster. Written by users.
	ImportLabel = "hollowfleet.io/import"

	// HostsLabel with the value HostsSimulatedClusters marks a Cluster that hosts simulated ones, for the hostSelector of a
	// SimulatedClusterSet. Commands of kubectl hollow that choose all Clusters leave it out. Written by users, and by kubectl hollow local.
	HostsLabel             = "hosts"
	HostsSimulatedClusters = "simulated-clusters"

	// HollowNodeLabel with the value "true" is on every Node that a hollow-node registers, and with the value KwokNodeLabelValue on every
	// Node of provider kwok. No real Node has it: pods that have work to do, such as those of hollow nodes, stay off all that do.
	HollowNodeLabel    = "hollowfleet.io/hollow"
	KwokNodeLabelValue = "kwok"
	// KwokConfigurationAnnotation, on a Node of provider kwok, is a hash of the configuration that the agent has made it from, and
	// KwokReadyAtAnnotation the time at which the Node becomes Ready if its configuration has a startupDelay. Written by the agent.
	KwokConfigurationAnnotation = "hollowfleet.io/kwok-configuration"
	KwokReadyAtAnnotation       = "hollowfleet.io/kwok-ready-at"
	// KwokRemindedAtAnnotation, on a pod of a Node of provider kwok, is when the agent last changed the pod so that kwok's controller, which
	// had overlooked it, looks at it again. Written by the agent.
	KwokRemindedAtAnnotation = "hollowfleet.io/kwok-reminded-at"
	// PodHostLabel is on the Node of a podhost, which runs the hollow-node pods of a simulated cluster.
	PodHostLabel = "hollowfleet.io/podhost"
	// KubeletVersionSourceLabel, on a Node, reports whether the kubelet version that it reports is that of the code which runs
	// (KubeletVersionBuiltIn), of the same minor (KubeletVersionSameMinor) or only reported (KubeletVersionReported).
	KubeletVersionSourceLabel = "hollowfleet.io/kubelet-version-source"
	// KubeletCodeLabel, on a hollow Node, has the version of the kubelet code that runs, such as v1.37.1; "+" is written as "_".
	KubeletCodeLabel = "hollowfleet.io/kubelet-code"
	// NodeLeaseDurationLabel and NodeStatusFrequencyLabel, on a hollow Node, are the settings nodeLeaseDurationSeconds and
	// nodeStatusUpdateFrequency of its kubelet, such as "120" and "30s". A Node with the kubelet's defaults does not have them.
	NodeLeaseDurationLabel   = "hollowfleet.io/node-lease-duration-seconds"
	NodeStatusFrequencyLabel = "hollowfleet.io/node-status-update-frequency"
	// NodeRoleLabelPrefix, followed by a role of spec.roles, is put on the Node by the agent.
	NodeRoleLabelPrefix = "node-role.kubernetes.io/"

	// AutoscalerDeploymentNameLabel is what cluster-autoscaler's clusterapi provider reads on a MachineSet
	// to tell that a MachineDeployment is rolling out. Written by the hub.
	AutoscalerDeploymentNameLabel = "cluster.x-k8s.io/deployment-name"
)

// Label values.
const (
	ManagedByHub            = "hub"
	KubeletVersionBuiltIn   = "BuiltIn"
	KubeletVersionSameMinor = "SameMinor"
	KubeletVersionReported  = "Reported"
)

// The Lease of the hub that works, and what tells its version there.
const (
	// ApprovalPolicy is the name of the admission policy that holds spec.approver of FleetApprovals to the user who creates them, and of its
	// binding. ApproverRole is that of the ClusterRole with the right to create them.
	ApprovalPolicy = "hollowfleet-approvals"
	ApproverRole   = "hollowfleet-approver"
	// HubNamespace holds what is the hub's own.
	HubNamespace = "hollowfleet-system"
	// HubLeaseName is the name of the Lease that the working hub renews.
	HubLeaseName = "hollowfleet-hub"
	// VersionLabel has the version of the program that works; "+" is written as "_".
	VersionLabel = "app.kubernetes.io/version"
)

// Annotations.
const (
	// RevisionAnnotation is the revision of a MachineDeployment's template: "1", "2", … Written by the hub
	// on the MachineDeployment and its MachineSets.
	RevisionAnnotation = "hollowfleet.io/revision"
	// FleetRecordAnnotation on a MachineDeployment says to which MachineFleet it belongs, and how far it is with which
	// revision. FleetAppliedAnnotation beside it has what the fleet applied last: these fields are the fleet's, and changes of
	// them are taken back. Both are written by the hub. Without the first, the fleet leaves the MachineDeployment alone until
	// its spec.adopt is set.
	FleetRecordAnnotation  = "hollowfleet.io/fleet-record"
	FleetAppliedAnnotation = "hollowfleet.io/fleet-applied"
	// FleetPreviousAnnotation beside them has what the fleet had applied when the MachineDeployment last reported success with
	// another revision than the current one: what a rollback brings back. Written by the hub.
	FleetPreviousAnnotation = "hollowfleet.io/fleet-previous"
	// FleetRevisionAnnotation on a ControllerRevision in HubNamespace is the revision of the MachineFleet's template that it
	// keeps, as status.revision had it. Written by the hub.
	FleetRevisionAnnotation = "hollowfleet.io/fleet-revision"
	// FleetRolloutLabel on a ControllerRevision in HubNamespace names the MachineFleet of which it records one rollout, and
	// FleetRolloutAnnotation has that record, as JSON. The hub writes both.
	FleetRolloutLabel      = "hollowfleet.io/machine-fleet-rollout"
	FleetRolloutAnnotation = "hollowfleet.io/fleet-rollout"
	// FleetPendingLabel on a ControllerRevision in HubNamespace names the MachineFleet whose templates it has while groups wait for an
	// approval and no cluster has started them. Written by the hub.
	FleetPendingLabel = "hollowfleet.io/machine-fleet-pending"
	// FleetMembersAnnotation has the clusters that the fleet had when that revision was started, by their groups, as JSON. The hub
	// sets it.
	FleetMembersAnnotation = "hollowfleet.io/fleet-members"
	// FleetPromiseAnnotation beside it has what the spec of the fleet said then of everything that keeps a cluster from being started:
	// groups, approvals, waves, bounds, windows, exclusions, health conditions and clusters that are unreachable, as JSON. The hub sets it.
	FleetPromiseAnnotation = "hollowfleet.io/fleet-promise"
	// FleetUndoneAnnotation on a MachineFleet has the numbers of the revisions from which a user has gone back, with commas. "kubectl
	// hollow rollout undo" writes it, and does not go forward to them.
	FleetUndoneAnnotation = "hollowfleet.io/undone-revisions"
	// AutoscalerRevisionAnnotation repeats RevisionAnnotation on a MachineSet under the name that
	// cluster-autoscaler's clusterapi provider reads. Written by the hub.
	AutoscalerRevisionAnnotation = "machinedeployment.clusters.x-k8s.io/revision"
	// DeleteMachineAnnotation marks the Machine that a scale-down takes first. Written by cluster-autoscaler
	// or a user.
	DeleteMachineAnnotation = "hollowfleet.io/delete-machine"
	// DeletionPriorityAnnotation on a Machine, a whole number, makes a scale-down take lower ones first; a Machine
	// without it has DefaultDeletionPriority. Written by users.
	DeletionPriorityAnnotation = "hollowfleet.io/deletion-priority"
	// ScaleDownDisabledAnnotation with the value "true" on a SimulatedCluster keeps it from being taken by a scale-down of its set. It goes
	// with the set all the same. Written by users.
	ScaleDownDisabledAnnotation = "hollowfleet.io/scale-down-disabled"
	// SimulatedClusterAnnotation on a Cluster, and on its namespace, names the SimulatedCluster for which the hub made them, as
	// <namespace>/<UID>; only that one may change and delete them. Written by the hub.
	SimulatedClusterAnnotation = "hollowfleet.io/simulated-cluster"
	// LeavingAnnotation on a Cluster is there while its Machines are removed because its SimulatedCluster is being deleted: no fleet, load
	// test or disruption selects it any more. Written by the hub.
	LeavingAnnotation = "hollowfleet.io/leaving"
	// InPlaceUpdateAnnotation on a Machine has the revision to which the hub last moved it for an update in
	// place. Written by the hub.
	InPlaceUpdateAnnotation = "hollowfleet.io/in-place-update"
	// TransferAnnotation on a MachineSet keeps its controller from creating, deleting, adopting and releasing
	// while the MachineDeployment moves Machines from one set to the next. Written by the hub.
	TransferAnnotation = "hollowfleet.io/transfer"
	// RemediationAnnotation on a Machine tells why the hub replaces it, such as "HealthTimeout"; ReplacesAnnotation
	// on a new Machine names the one that it was made for; it is empty if the hub has started again meanwhile and
	// cannot tell. Written by the hub.
	RemediationAnnotation = "hollowfleet.io/remediation"
	ReplacesAnnotation    = "hollowfleet.io/replaces"
	// TemplateKeysAnnotation on a Machine lists the labels and annotations that its MachineSet's template gave it,
	// so that those which leave the template leave the Machine, and no others; and the timeouts and
	// unhealthyNodeConditions that it gave, so that others which a person has set on the Machine stay. Written by the hub.
	TemplateKeysAnnotation = "hollowfleet.io/template-keys"
	// TraceparentAnnotation on a MachineDeployment, MachineSet or Machine, and on the pod of a hollow node, names the trace that
	// the last change of it belongs to, as W3C Trace Context. Written by hub and agent while they make traces; a user may set it
	// on a MachineFleet or MachineDeployment to have the next change in a trace of his own.
	TraceparentAnnotation = "hollowfleet.io/traceparent"
	// DesiredReplicasAnnotation on a MachineSet has the replicas of its MachineDeployment for which it was scaled
	// last, so that a later change of them is known from a rollout that is under way. Written by the hub.
	DesiredReplicasAnnotation = "hollowfleet.io/desired-replicas"
	// AutoscalerMinSizeAnnotation and AutoscalerMaxSizeAnnotation, on a MachineDeployment or a MachineSet without one,
	// let cluster-autoscaler scale it between these numbers of Machines. Written by users.
	AutoscalerMinSizeAnnotation = "hollowfleet.io/cluster-api-autoscaler-node-group-min-size"
	AutoscalerMaxSizeAnnotation = "hollowfleet.io/cluster-api-autoscaler-node-group-max-size"
	// AutoscalerCapacityPrefix, followed by cpu, memory, ephemeral-disk, maxPods, gpu-type, gpu-count, labels or taints,
	// are annotations beside these which tell cluster-autoscaler what a Node will look like before there is one.
	// Written by the hub, as far as no user has written them.
	AutoscalerCapacityPrefix = "capacity.cluster-autoscaler.kubernetes.io/"
	// AutoscalerPausedAnnotation hides a MachineDeployment or MachineSet from cluster-autoscaler. Written by the hub
	// while it is frozen or paused; one that a user wrote stays.
	AutoscalerPausedAnnotation = "cluster.x-k8s.io/paused"
	// AutoscalingHashAnnotation tells the hub which of its annotations for cluster-autoscaler it has written. Written
	// by the hub.
	AutoscalingHashAnnotation = "hollowfleet.io/autoscaling-hash"
	// PreDrainHookPrefix and PreTerminateHookPrefix, followed by a name, are annotations on a Machine that hold
	// its deletion before the drain, or before its instance is removed, until a user removes them. Written by users.
	PreDrainHookPrefix     = "pre-drain.hook.hollowfleet.io/"
	PreTerminateHookPrefix = "pre-terminate.hook.hollowfleet.io/"
	// AllowKubeletVersionSkewAnnotation with the value "true" on a Machine, or in the metadata of the template that
	// gives it to Machines, allows a kubelet version outside of Kubernetes' version skew policy. Written by users.
	AllowKubeletVersionSkewAnnotation = "hollowfleet.io/allow-kubelet-version-skew"
	// AllowOvershootAnnotation with the value "true" on a MachineSet or MachineDeployment keeps it from freezing when it has
	// far more Machines than it asks for: a scale-down takes the surplus. Written by users.
	AllowOvershootAnnotation = "hollowfleet.io/allow-overshoot"
	// AllowNamespaceDeletionAnnotation with the value "true" on a cluster's namespace lets it be deleted although its Cluster
	// exists. Set by a user.
	AllowNamespaceDeletionAnnotation = "hollowfleet.io/allow-namespace-deletion"
	// RollbackAnnotation on a MachineDeployment tells which revision its template was last taken back to.
	// Written by kubectl hollow rollout undo.
	RollbackAnnotation = "hollowfleet.io/rolled-back-to"
	// NodeCordonedAnnotation, on a Node, tells that the agent cordoned it, so that it uncordons only its own.
	// Written by the agent.
	NodeCordonedAnnotation = "hollowfleet.io/cordoned"
	// FreezeUserAnnotation tells who set FreezeAnnotation, and is shown in the Frozen condition. Written by kubectl hollow
	// freeze.
	FreezeUserAnnotation = "hollowfleet.io/freeze-user"
	// NodeMachineAnnotation, on a Node, names its Machine. Written by the agent.
	NodeMachineAnnotation = "hollowfleet.io/machine"
	// NodeClusterNamespaceAnnotation, on a Node, names its Machine's namespace on the hub. Written by the agent.
	NodeClusterNamespaceAnnotation = "hollowfleet.io/cluster-namespace"
	// NodeAppliedTaintsAnnotation, on a Node, lists the taints that the agent put there, so that it takes
	// away only its own when spec.taints changes. Written by the agent.
	NodeAppliedTaintsAnnotation = "hollowfleet.io/applied-taints"
	// FreezeAnnotation, set by a user on a Cluster, MachineFleet, MachineDeployment, MachineSet, SimulatedCluster or SimulatedClusterSet,
	// freezes it; the value is the reason and is shown in the Frozen condition. Removing it ends that freeze.
	FreezeAnnotation = "hollowfleet.io/freeze"
	// AcknowledgeHubAnnotation on a Cluster lets its agent work for a hub that it found to be another than the one that
	// it knew: the value is that of status.unacknowledgedHub. AcknowledgeHubUserAnnotation tells who set it. Written by
	// kubectl hollow cluster acknowledge.
	AcknowledgeHubAnnotation     = "hollowfleet.io/acknowledge-hub"
	AcknowledgeHubUserAnnotation = "hollowfleet.io/acknowledge-hub-user"
	// ShownRenewalAnnotation on the Lease of an agent that has not compared the hub yet keeps what the Lease said before
	// the agent renewed it: its renewTime, or nothing if there was no Lease. Written by the agent.
	ShownRenewalAnnotation = "hollowfleet.io/shown-renewal"
	// ActedAnnotation on the Lease of an agent tells when agents of the cluster could act, as <from>/<to>, the latest last.
	// Only such times count for the deadlines of Machines, also after a restart. Written by the agent.
	ActedAnnotation = "hollowfleet.io/acted"
	// ImportedFromAnnotation on a Cluster names the object from which the hub made it, as
	// <resource>.<group>/<name>. Such a Cluster is never mirrored back. Of a Cluster with another name, a copy, it says nothing.
	// Written by the hub.
	ImportedFromAnnotation = "hollowfleet.io/imported-from"
	// PictureUIDAnnotation, on a ManagedCluster or ClusterProfile that shows a Cluster, is its own UID: a copy of one has another.
	// Written by the hub.
	PictureUIDAnnotation = "hollowfleet.io/picture-uid"
	// CopiedLabelsAnnotation lists the keys of the labels that the hub copied to an object from another, so that
	// it takes away only its own. Written by the hub.
	CopiedLabelsAnnotation = "hollowfleet.io/copied-labels"
	// ExitAfterAnnotation and ExitCodeAnnotation, on a pod that runs on a hollow node, let its containers end
	// after a duration such as "30s", with an exit code (default 0). Written by users.
	ExitAfterAnnotation = "hollowfleet.io/exit-after"
	ExitCodeAnnotation  = "hollowfleet.io/exit-code"
	// StartedAfterAnnotation and ReadyAfterAnnotation, on a pod that runs on a hollow node whose probes are Run, let its
	// startup and readiness probes fail until a container has run for a duration such as "5s". ReadinessFailsAfterAnnotation
	// and LivenessFailsAfterAnnotation let its readiness and liveness probes fail from then on. Written by users.
	StartedAfterAnnotation        = "hollowfleet.io/started-after"
	ReadyAfterAnnotation          = "hollowfleet.io/ready-after"
	ReadinessFailsAfterAnnotation = "hollowfleet.io/readiness-fails-after"
	LivenessFailsAfterAnnotation  = "hollowfleet.io/liveness-fails-after"
	// TerminatesAfterAnnotation, on a pod that runs on a hollow node, is how long its containers take to end when they are
	// told to, such as "5s"; they are killed when the grace period is over. Written by users.
	TerminatesAfterAnnotation = "hollowfleet.io/terminates-after"
	// ImagePullFailsAnnotation with the value "true", on a pod that runs on a hollow node, lets each pull of an image of it
	// fail, for as long as it is there. Written by users.
	ImagePullFailsAnnotation = "hollowfleet.io/image-pull-fails"
	// LogAnnotation, on a pod that runs on a hollow node that serves the kubelet's API, is the log of its containers: lines of a time
	// since their start and a text, such as "2s listening" or "every 10s handled a request". Written by users.
	LogAnnotation = "hollowfleet.io/log"
	// CPUUsageAnnotation and MemoryUsageAnnotation, on a pod that runs on a hollow node, are what each of its containers uses: a share of
	// its request ("50%", the default), a quantity ("200m"), "sine 100m..500m period 5m", or "curve 0s=100m 60s=400m", which can end with
	// "repeat". Written by users.
	CPUUsageAnnotation    = "hollowfleet.io/cpu-usage"
	MemoryUsageAnnotation = "hollowfleet.io/memory-usage"
)

// DefaultDeletionPriority is the deletion priority of a Machine without DeletionPriorityAnnotation.
const DefaultDeletionPriority = 3

// Finalizers, and the names and group of identities.
const (
	// MachineFinalizer keeps a Machine until its agent has removed pod, Node and credentials. Written by the
	// MachineSet controller at creation, else by the agent before it creates anything; removed by the agent.
	MachineFinalizer = "hollowfleet.io/agent"
	// LoadTestRunFinalizer keeps a LoadTestRun until its agent has removed what the run made. Written by the agent before it makes
	// anything, and removed by it.
	LoadTestRunFinalizer = "hollowfleet.io/load-test-run"
	// SimulatedClusterFinalizer keeps a SimulatedCluster until its host's agent has removed what it made. Written by the agent before it
	// makes anything, and removed by it.
	SimulatedClusterFinalizer = "hollowfleet.io/simulated-cluster"
	// ClusterFinalizer keeps a Cluster until the hub has dealt with its namespace, and a SimulatedCluster until its Cluster and namespace
	// are gone. Written by the hub.
	ClusterFinalizer = "hollowfleet.io/hub"

	// HollowHostTaint (NoSchedule) keeps ordinary pods off hosts that are dedicated to hollow-node pods;
	// hollow-node pods tolerate it in every cluster.
	HollowHostTaint = "hollowfleet.io/hollow-host"

	// HollowNodeTaint, with the value HollowNodeTaintValue and the effect NoSchedule, keeps ordinary pods off hollow Nodes in
	// clusters which have other Nodes. Pods that are meant for hollow Nodes tolerate it. The hollow node registers with it;
	// HollowNodeConfig's hollowTaint and the agent's option --hollow-taint decide whether.
	HollowNodeTaint      = "hollowfleet.io/hollow"
	HollowNodeTaintValue = "true"

	// NotAcceptedTaint (NoSelect) is on the ManagedCluster that mirrors a Cluster which may not join.
	NotAcceptedTaint = "hollowfleet.io/not-accepted"

	// AgentLeaseName is the Lease in the cluster's namespace on the hub that its agent renews.
	AgentLeaseName = "hollowfleet-agent"
	// AgentUserPrefix, followed by the cluster's name, is the user name of the identity that a cluster's agent
	// uses on the hub.
	AgentUserPrefix = "hollowfleet.io:agent:"
	// JoinGroupPrefix, followed by the cluster's name, is the group of a bootstrap token with which the
	// cluster's agent joins (auth-extra-groups of its Secret). It may read its own Cluster and ask for its own
	// certificate, and nothing else.
	JoinGroupPrefix = "system:bootstrappers:hollowfleet:"
	// AgentRequestPrefix, followed by the cluster's name, is the name of the one CertificateSigningRequest that
	// a cluster's agent may have at a time.
	AgentRequestPrefix = "hollowfleet-agent-"
	// AgentServiceAccount is the ServiceAccount of the agent in the cluster's namespace on the hub, if the
	// cluster's credential is ServiceAccountToken.
	AgentServiceAccount = "hollowfleet-agent"
	// AgentGroupPrefix, followed by the cluster's name, is the group of the identity that a cluster's agent
	// uses on the hub.
	AgentGroupPrefix = "hollowfleet.io:cluster:"

	// ProviderHollow is the built-in provider: Machines become hollow-node pods.
	ProviderHollow = "hollow"
	// ProviderKwok is the provider of agents that it is enabled for: Machines become Nodes that kwok's controller keeps Ready.
	ProviderKwok = "kwok"
)
