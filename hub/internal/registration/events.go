package registration

import (
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/registration/policy"
)

// maxNote is the API server's limit for an event's note, in bytes.
const maxNote = 1024

// news is what to tell about a cluster.
type news struct {
	kind, reason, action, note string
}

// decisionEvent is what to tell of a decision; nothing of one that is no news.
func decisionEvent(request string, decision policy.Decision) (news, bool) {
	switch decision.Verdict {
	case policy.Approve:
		return news{corev1.EventTypeNormal, "CertificateApproved", "Approve", fmt.Sprintf("Approved %s: %s", request, decision.Message)}, true
	case policy.Deny:
		return news{corev1.EventTypeWarning, "CertificateDenied", "Deny", fmt.Sprintf("Denied %s: %s: %s", request, decision.Reason, decision.Message)}, true
	case policy.Wait:
		return news{corev1.EventTypeNormal, "JoinRequested", "Wait", fmt.Sprintf("%s waits: %s", request, decision.Message)}, true
	case policy.Leave:
	}
	return news{}, false
}

// tell sends the event of a decision, about the Cluster, where its user looks.
func tell(recorder events.EventRecorder, cluster *v1alpha1.Cluster, csr *certificatesv1.CertificateSigningRequest, decision policy.Decision) {
	if told, worth := decisionEvent(csr.Name, decision); worth {
		recorder.Eventf(cluster, csr, told.kind, told.reason, told.action, "%s", told.note[:min(len(told.note), maxNote)])
	}
}
