package hollow

import "github.com/hollowfleet/hollowfleet/apis/v1alpha1"

const (
	// BootstrapServiceAccount is the ServiceAccount of the target cluster whose tokens hollow-nodes join with.
	BootstrapServiceAccount = "hollow-node-bootstrap"

	// tokenIDsAnnotation, on a Machine's Secret, lists the IDs of the bootstrap tokens that may ask for the
	// identity of its Node: the current one and the one before.
	tokenIDsAnnotation = "hollowfleet.io/bootstrap-token-ids"
	// tokenExpiryAnnotation, on a Machine's Secret, is when its current bootstrap token expires (RFC 3339).
	tokenExpiryAnnotation = "hollowfleet.io/bootstrap-token-expiry"
	// configurationHashAnnotation and registrationHashAnnotation, on a pod, tell what it was made from.
	configurationHashAnnotation = "hollowfleet.io/configuration-hash"
	registrationHashAnnotation  = "hollowfleet.io/registration-hash"

	containerName = "hollow-node"
	fieldManager  = "hollowfleet-agent"
)

// objectLabels are on every pod and Secret that this driver makes.
func objectLabels(cluster, machine string) map[string]string {
	return map[string]string{
		v1alpha1.ClusterNameLabel: cluster,
		v1alpha1.MachineNameLabel: machine,
	}
}
