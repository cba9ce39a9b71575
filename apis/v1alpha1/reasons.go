package v1alpha1

// Reasons. One reason may serve conditions of several kinds.
const (
	// ReasonPending: the responsible controller or agent has not looked yet.
	ReasonPending = "Pending"
	// ReasonReady: everything that the condition asks for holds.
	ReasonReady = "Ready"
	// ReasonUnknown: a condition below is Unknown; the message says which.
	ReasonUnknown = "Unknown"
	// ReasonUndecodable: an object is there whose spec or status cannot be decoded, so that what it asks for is not known.
	ReasonUndecodable = "Undecodable"

	// ReasonAccepted, ReasonDenied and ReasonAwaitingAcceptance repeat Cluster.spec.acceptance. An agent that the hub
	// has shut out is frozen for ReasonDenied.
	ReasonAccepted           = "Accepted"
	ReasonDenied             = "Denied"
	ReasonAwaitingAcceptance = "AwaitingAcceptance"
	// ReasonNamespaceConflict: a namespace of the cluster's name exists that the hub did not make.
	ReasonNamespaceConflict = "NamespaceConflict"
	// ReasonNamespaceDeleting: the cluster's namespace is being deleted, so its agent has no access to it any more.
	ReasonNamespaceDeleting = "NamespaceDeleting"
	// ReasonManagedClusterConflict: a ManagedCluster of the cluster's name exists that the hub did not make.
	ReasonManagedClusterConflict = "ManagedClusterConflict"
	// ReasonMirrorRefused: the API server does not let the hub write the cluster's ManagedCluster; the message has its
	// answer.
	ReasonMirrorRefused = "MirrorRefused"
	// ReasonClusterNotFound: spec.clusterName names no Cluster.
	ReasonClusterNotFound = "ClusterNotFound"

	// ReasonLeaseRenewed and ReasonLeaseExpired: the hub has, or has not, seen the agent's Lease change
	// within the grace period. ReasonNeverSeen: there was no Lease yet.
	ReasonLeaseRenewed = "LeaseRenewed"
	ReasonLeaseExpired = "LeaseExpired"
	ReasonNeverSeen    = "NeverSeen"

	// ReasonReachable and ReasonUnreachable: API server probes succeed or fail.
	ReasonReachable   = "Reachable"
	ReasonUnreachable = "Unreachable"
	// ReasonNotFrozen: no cause of a freeze holds.
	ReasonNotFrozen = "NotFrozen"
	// ReasonStarting: frozen since the process started, until both API servers are proven healthy.
	ReasonStarting = "Starting"
	// ReasonHubUnreachable, ReasonTargetUnreachable, ReasonHostUnreachable, ReasonAgentSilent,
	// ReasonManualFreeze and ReasonOvershoot are the causes of a freeze.
	ReasonHubUnreachable    = "HubUnreachable"
	ReasonTargetUnreachable = "TargetUnreachable"
	ReasonHostUnreachable   = "HostUnreachable"
	ReasonAgentSilent       = "AgentSilent"
	ReasonManualFreeze      = "ManualFreeze"
	ReasonOvershoot         = "Overshoot"
	// ReasonDeploymentOvershoot: the MachineDeployment above is frozen because another of its MachineSets has far too many
	// Machines; this one has not.
	ReasonDeploymentOvershoot = "DeploymentOvershoot"
	// ReasonAnotherAgent: another agent of the same cluster is at work; this one stands by.
	ReasonAnotherAgent = "AnotherAgent"
	// ReasonLeaseNotHeld: the agent does not hold its Lease, or could not renew it in time, so that another one
	// might be at work.
	ReasonLeaseNotHeld = "LeaseNotHeld"
	// ReasonHubUnchecked: the agent has not compared the hub with the one that it knows yet, since it started or
	// since its connection to the hub was broken.
	ReasonHubUnchecked = "HubUnchecked"
	// ReasonHubChanged, ReasonHubRestored and ReasonHubEmpty: the hub is not the one that the agent knows. Its Cluster
	// has another UID; or it has lost renewals of the Lease that it had confirmed, as one does that was restored from
	// a backup; or it has no Machine at all, and the cluster has instances of some. The agent stays frozen until a
	// person acknowledges the hub (AcknowledgeHubAnnotation).
	ReasonHubChanged  = "HubChanged"
	ReasonHubRestored = "HubRestored"
	ReasonHubEmpty    = "HubEmpty"
	// ReasonVersionSkew: agent and hub are more than one minor version apart. The agent stays frozen until a user upgrades the
	// older of the two.
	ReasonVersionSkew = "VersionSkew"
	// ReasonRelisting: every other cause of a freeze is over, and the agent lists its world again before it acts.
	ReasonRelisting = "Relisting"

	// ReasonPodRunning, ReasonPodPending, ReasonPodFailed and ReasonPodMissing describe the machine's pod.
	ReasonPodRunning = "PodRunning"
	ReasonPodPending = "PodPending"
	ReasonPodFailed  = "PodFailed"
	ReasonPodMissing = "PodMissing"
	// ReasonNodeNotFound: no Node of the Machine has registered, or it is gone.
	ReasonNodeNotFound = "NodeNotFound"
	// ReasonNodeNameConflict: a Node of the Machine's name exists and does not belong to this Machine. No instance is made and
	// no certificate approved until that Node is gone.
	ReasonNodeNameConflict = "NodeNameConflict"
	// ReasonNodeReady and ReasonNodeNotReady repeat what the Node says; ReasonNodeStatusUnknown is the
	// node-lifecycle controller's Unknown.
	ReasonNodeReady         = "NodeReady"
	ReasonNodeNotReady      = "NodeNotReady"
	ReasonNodeStatusUnknown = "NodeStatusUnknown"
	// ReasonCordoned: the Node is marked unschedulable.
	ReasonCordoned = "Cordoned"
	// ReasonValid: the configuration was read without error.
	ReasonValid = "Valid"
	// ReasonDeleting: the object is being deleted. ReasonAwaitingThaw: it is to be deleted, and the cluster is frozen, so
	// that nothing is removed yet.
	ReasonDeleting = "Deleting"
	// ReasonHeldByFinalizers: the agent waits for others, or is done, and finalizers of others keep the Machine, its Node or its pod.
	ReasonHeldByFinalizers = "HeldByFinalizers"
	// ReasonNodeDeleting: the Node of a Machine is being deleted.
	ReasonNodeDeleting = "NodeDeleting"
	// ReasonNameConflict: a pod or Secret of the Machine's name is there that its agent did not make.
	ReasonNameConflict = "NameConflict"
	ReasonAwaitingThaw = "AwaitingThaw"

	// ReasonMinimumReplicasAvailable and ReasonMinimumReplicasUnavailable are those of apps/v1.
	ReasonMinimumReplicasAvailable   = "MinimumReplicasAvailable"
	ReasonMinimumReplicasUnavailable = "MinimumReplicasUnavailable"
	// ReasonScaledToZero: a Deployment asks for no replica, so its health is unknown.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonScalingUp and ReasonScalingDown: there are fewer or more Machines than spec.replicas.
	ReasonScalingUp   = "ScalingUp"
	ReasonScalingDown = "ScalingDown"
	// ReasonCreateFailed and ReasonDeleteFailed: the hub's API server refused a Machine.
	ReasonCreateFailed = "CreateFailed"
	ReasonDeleteFailed = "DeleteFailed"
	// ReasonMachineUpdateFailed: the hub's API server refused to bring a Machine or MachineSet up to date with its
	// template.
	ReasonMachineUpdateFailed = "MachineUpdateFailed"
	// ReasonInvalidTemplate: labels or annotations of a template are left out, because no Machine can have them.
	// ReasonInvalidSelector: no Machine of the template can match the selector, so that nothing is made or deleted.
	ReasonInvalidTemplate = "InvalidTemplate"
	ReasonInvalidSelector = "InvalidSelector"
	// ReasonTooManyCreations: a MachineSet made far more Machines than it has replicas, and waits.
	ReasonTooManyCreations = "TooManyCreations"
	// ReasonMoveFailed: the hub's API server refused to give a Machine another template for an update in place.
	ReasonMoveFailed = "MoveFailed"
	// ReasonReplicasReconciled: the last create or delete calls succeeded.
	ReasonReplicasReconciled = "ReplicasReconciled"
	// ReasonNewMachineSetAvailable, ReasonRollingOut and ReasonPaused describe a MachineDeployment's rollout.
	ReasonNewMachineSetAvailable = "NewMachineSetAvailable"
	ReasonRollingOut             = "RollingOut"
	ReasonPaused                 = "Paused"
	// ReasonAwaitingRequest: what is left of the rollout waits until a user deletes Machines (OnDelete) or chooses
	// them (InPlace with trigger Manual). No deadline runs.
	ReasonAwaitingRequest = "AwaitingRequest"
	// ReasonAwaitingSurge: the rollout continues when other MachineDeployments, which the message names, give back some of
	// the surge that they share with it. No deadline runs.
	ReasonAwaitingSurge = "AwaitingSurge"
	// ReasonSelectorOverlap: an older MachineDeployment selects the MachineSets that this one makes, or the other way round. Nothing
	// is changed for this one. For a MachineSet without controller: an older one, or any MachineDeployment, and their Machines.
	ReasonSelectorOverlap = "SelectorOverlap"
	// ReasonConfigSourceUnavailable: no Machine gets the current template, because the hub cannot take the KubeletConfiguration that its
	// configSource names. The message says what a user can do.
	ReasonConfigSourceUnavailable = "ConfigSourceUnavailable"
	// ReasonAwaitingConfigSource: a Machine waits until the hub has taken the KubeletConfiguration that its configSource names.
	ReasonAwaitingConfigSource = "AwaitingConfigSource"
	// ReasonUnsupportedKubeletVersion: no Machine gets the current template, because the API server of the cluster does
	// not support its kubelet version. The message says what a user can do.
	ReasonUnsupportedKubeletVersion = "UnsupportedKubeletVersion"
	// ReasonProgressDeadlineExceeded: no progress for spec.progressDeadlineSeconds.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
	// ReasonRolloutComplete: every cluster of the fleet has the current revision, or has failed within what may fail.
	ReasonRolloutComplete = "RolloutComplete"
	// ReasonTooManyFailures: more clusters of the fleet have failed than its rolloutStrategy allows, so that nothing more is
	// started.
	ReasonTooManyFailures = "TooManyFailures"
	// ReasonAborted: spec.abortedRevision is that of the fleet's template, so that nothing more is started.
	ReasonAborted = "Aborted"
	// ReasonRollingBack: clusters of the fleet get back the template that they had before. ReasonRolledBack: they have it, also
	// as what a cluster of a fleet is listed for.
	ReasonRollingBack = "RollingBack"
	ReasonRolledBack  = "RolledBack"
	// ReasonRollbackFailed: a cluster of a fleet cannot continue with the template that it had before, or was not in time.
	ReasonRollbackFailed = "RollbackFailed"
	// ReasonNoEarlierTemplate: a cluster of a fleet that is to be rolled back has nothing to go back to.
	ReasonNoEarlierTemplate = "NoEarlierTemplate"
	// ReasonAwaitingApproval: what is left of the fleet's rollout waits for a FleetApproval.
	ReasonAwaitingApproval = "AwaitingApproval"
	// ReasonAwaitingRollout: clusters of the fleet have no MachineDeployment yet, because its rollout has not reached them. All that
	// there are of the fleet are available.
	ReasonAwaitingRollout = "AwaitingRollout"
	// ReasonGroupUnproven: no cluster with Machines has proven the revision in a mandatory group of the fleet, so nothing after it
	// is started until a user changes something.
	ReasonGroupUnproven = "GroupUnproven"
	// ReasonRolloutTooLarge: the fleet has more clusters, or longer gates, than can be kept of a rollout, so none is started.
	ReasonRolloutTooLarge = "RolloutTooLarge"
	// ReasonGroupWithoutCluster: a group of the fleet has lost all its clusters, or is mandatory and has none.
	ReasonGroupWithoutCluster = "GroupWithoutCluster"
	// ReasonFieldsContested: another field manager sets fields back that the fleet owns, each time that it has corrected them.
	ReasonFieldsContested = "FieldsContested"
	// ReasonGatesChanged: what is left of the fleet's rollout may be started by the spec as it is now, or as it was when the rollout
	// started, but not by both.
	ReasonGatesChanged = "GatesChanged"
	// ReasonOutsideMaintenanceWindow: the current wave of the fleet's rollout waits for a maintenance window.
	ReasonOutsideMaintenanceWindow = "OutsideMaintenanceWindow"
	// ReasonClustersHeld: what is left of the fleet's rollout waits for clusters that are frozen or not Ready.
	ReasonClustersHeld = "ClustersHeld"
	// ReasonClustersBlocked: what is left of the fleet's rollout waits for clusters in which nothing can be started until a user
	// changes something.
	ReasonClustersBlocked = "ClustersBlocked"
	// ReasonAwaitingControlPlane: what is left of the rollout, of a fleet or a MachineDeployment, waits for simulated clusters whose control
	// planes are to get a version that supports the kubelet. No deadline runs.
	ReasonAwaitingControlPlane = "AwaitingControlPlane"
	// ReasonInvalidFleet: a field of the fleet's spec cannot be used as it is, so that nothing is started.
	ReasonInvalidFleet = "InvalidFleet"
	// ReasonKubeletDowngrade: the fleet's template has an older kubelet than the one before, and spec.allowDowngrade is not
	// set, so that nothing is started.
	ReasonKubeletDowngrade = "KubeletDowngrade"
	// ReasonNoClusterSelected: no accepted Cluster matches the fleet's selector yet. ReasonSelectionEmptied: none does any
	// more, which freezes the fleet.
	ReasonNoClusterSelected = "NoClusterSelected"
	ReasonSelectionEmptied  = "SelectionEmptied"
	// ReasonPlacementsNotInstalled: the hub's API server does not have the kinds of Open Cluster Management that spec.placementRef
	// needs. ReasonPlacementNotFound: it has no such Placement. Nothing is started or removed in either case, and a fleet that
	// has MachineDeployments is frozen. ReasonPlacementDecisionsIncomplete: the Placement's decisions are not as many as it
	// says, so that nothing is started and no cluster leaves.
	ReasonPlacementsNotInstalled       = "PlacementsNotInstalled"
	ReasonPlacementNotFound            = "PlacementNotFound"
	ReasonPlacementDecisionsIncomplete = "PlacementDecisionsIncomplete"
	// ReasonNotAdopted: a MachineDeployment of the fleet's name exists that the fleet did not make.
	// ReasonClaimedByAnotherFleet: it belongs to another fleet. ReasonSelectorDiffers: its selector, which cannot be changed,
	// is another than the fleet's. ReasonWriteRefused: the API server refuses the fleet's MachineDeployment.
	ReasonNotAdopted            = "NotAdopted"
	ReasonClaimedByAnotherFleet = "ClaimedByAnotherFleet"
	ReasonSelectorDiffers       = "SelectorDiffers"
	ReasonWriteRefused          = "WriteRefused"
	// ReasonInvalidReplicasLabel: the label of spec.replicasFromLabel is not a number of replicas at this Cluster.
	ReasonInvalidReplicasLabel = "InvalidReplicasLabel"
	// ReasonClusterUnreachable: a cluster of a fleet whose unreachablePolicy is Fail is frozen or not Ready.
	ReasonClusterUnreachable = "ClusterUnreachable"
	// ReasonRolloutFailed and ReasonRolloutTimedOut: what a cluster of a fleet failed for. Its MachineDeployment cannot continue;
	// or it was not in time for the progressDeadline of the fleet's rolloutStrategy.
	ReasonRolloutFailed   = "RolloutFailed"
	ReasonRolloutTimedOut = "RolloutTimedOut"
	// ReasonTooManyUnhealthy and ReasonWithinMaxUnhealthy compare unhealthy Machines with maxUnhealthy.
	ReasonTooManyUnhealthy   = "TooManyUnhealthy"
	ReasonWithinMaxUnhealthy = "WithinMaxUnhealthy"

	// ReasonHealthy, ReasonUnhealthyNodeCondition: what Healthy says of the Node; beside them NodeNotReady and
	// NodeStatusUnknown.
	ReasonHealthy                = "Healthy"
	ReasonUnhealthyNodeCondition = "UnhealthyNodeCondition"

	// ReasonUpToDate, ReasonAwaitingUpdate, ReasonDraining, ReasonUpdating, ReasonInPlaceUnsupported and
	// ReasonUpdateFailed describe an update in place.
	ReasonUpToDate           = "UpToDate"
	ReasonAwaitingUpdate     = "AwaitingUpdate"
	ReasonDraining           = "Draining"
	ReasonUpdating           = "Updating"
	ReasonInPlaceUnsupported = "InPlaceUnsupported"
	ReasonUpdateFailed       = "UpdateFailed"

	// ReasonDrained, ReasonDrainTimedOut, ReasonMisconfiguredBudget and ReasonAwaitingHook describe a drain, beside
	// Draining. A misconfigured budget allows no disruption at all.
	ReasonDrained             = "Drained"
	ReasonDrainTimedOut       = "DrainTimedOut"
	ReasonMisconfiguredBudget = "MisconfiguredBudget"
	// ReasonPodsComeBack: the owner of evicted pods makes new ones on the same Node, which tolerate that it is cordoned. They are
	// evicted again less and less often.
	ReasonPodsComeBack = "PodsComeBack"
	ReasonAwaitingHook = "AwaitingHook"
	// ReasonSufficientPods and ReasonInsufficientPods are those of the condition of the same name of a PodDisruptionBudget.
	ReasonSufficientPods   = "SufficientPods"
	ReasonInsufficientPods = "InsufficientPods"
	// ReasonDeploymentNotFound: the Deployment of a health check does not exist. ReasonCheckFailed: the agent cannot read what it
	// is to look at; the message says why.
	ReasonDeploymentNotFound = "DeploymentNotFound"
	ReasonCheckFailed        = "CheckFailed"
	// ReasonCreated: the Cluster of a SimulatedCluster was made.
	ReasonCreated = "Created"
	// ReasonNameTaken: a Cluster, or a SimulatedCluster, of that name exists and belongs to another. It is not changed.
	ReasonNameTaken = "NameTaken"
	// ReasonNoHost: a SimulatedCluster is in a namespace that does not belong to a Cluster. ReasonHostSimulated: it is in that of a simulated cluster.
	// ReasonHostNotAllowed: the agent of its host runs no SimulatedClusters.
	ReasonNoHost         = "NoHost"
	ReasonHostSimulated  = "HostSimulated"
	ReasonHostNotAllowed = "HostNotAllowed"
	// ReasonTurnedOn and ReasonTurnedOff: what an agent does only if its administrator turns it on.
	ReasonTurnedOn  = "TurnedOn"
	ReasonTurnedOff = "TurnedOff"
	// ReasonVersionNotSupported: the host's agent cannot run the control plane in that version.
	ReasonVersionNotSupported = "VersionNotSupported"
	// ReasonControlPlaneDowngrade: the version that is asked for is earlier than that which runs. A control plane cannot go back.
	ReasonControlPlaneDowngrade = "ControlPlaneDowngrade"
	// ReasonAwaitingCredential: the hub has not issued the certificate of the simulated cluster's agent yet.
	ReasonAwaitingCredential = "AwaitingCredential"
	// ReasonInsufficientResources: the host has no room for the simulated cluster.
	ReasonInsufficientResources = "InsufficientResources"
	// ReasonDriverUnreachable: what runs simulated clusters for the host's agent does not answer, so that nothing is known of them.
	ReasonDriverUnreachable = "DriverUnreachable"
	// ReasonControlPlaneFailed: a control plane could not be started, or does not answer. It is tried again.
	ReasonControlPlaneFailed = "ControlPlaneFailed"
	// ReasonNoHostSelected: no Cluster that is selected can host SimulatedClusters until a user changes something. ReasonHostsHeld: those that
	// can are frozen or silent. ReasonHostsAvailable: there is one.
	ReasonNoHostSelected = "NoHostSelected"
	ReasonHostsHeld      = "HostsHeld"
	ReasonHostsAvailable = "HostsAvailable"
	// ReasonMachinesRemoved: the Machines of a cluster are gone. ReasonForced: a user gave them up.
	ReasonMachinesRemoved = "MachinesRemoved"
	ReasonForced          = "Forced"
	// ReasonScaleDownDisabled: the set has more SimulatedClusters than replicas, and annotations keep them.
	ReasonScaleDownDisabled = "ScaleDownDisabled"
	// ReasonThawLimited: the Machine waits, because after a freeze only some Machines a minute are taken apart.
	ReasonThawLimited = "ThawLimited"
)

// Terminal errors of a Machine (status.errorReason): nothing is retried. After a timeout the MachineSet replaces
// the Machine; with any other the user has to change something.
const (
	// ErrorInvalidConfiguration: spec or provider configuration cannot be used as it is.
	ErrorInvalidConfiguration = "InvalidConfiguration"
	// ErrorUnknownProvider: the agent has no driver of that name.
	ErrorUnknownProvider = "UnknownProvider"
	// ErrorMachineClassNotFound: spec.providerConfig.valueRef names no MachineClass of the namespace.
	ErrorMachineClassNotFound = "MachineClassNotFound"
	// ErrorUnsupportedKubeletVersion: spec.versions.kubelet is newer than the API server or more than three
	// minor versions older (https://kubernetes.io/releases/version-skew-policy/).
	ErrorUnsupportedKubeletVersion = "UnsupportedKubeletVersion"
	// ErrorCreationTimeout: the Node was not Ready within timeouts.creation.
	ErrorCreationTimeout = "CreationTimeout"
	// ErrorHealthTimeout: the Machine was unhealthy for timeouts.health.
	ErrorHealthTimeout = "HealthTimeout"
)
