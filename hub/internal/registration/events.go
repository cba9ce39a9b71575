package registration

import (
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/tools/events"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/notice"
	"github.com/hollowfleet/hollowfleet/hub/internal/registration/policy"
)

// decisionEvent is what to tell of a decision; nothing of one that is no news.
func decisionEvent(request string, decision policy.Decision) (notice.Event, bool) {
	switch decision.Verdict {
	case policy.Approve:
		return notice.Normal("CertificateApproved", "Approve", fmt.Sprintf("Approved %s: %s", request, decision.Message)), true
	case policy.Deny:
		return notice.Warning("CertificateDenied", "Deny", fmt.Sprintf("Denied %s: %s: %s", request, decision.Reason, decision.Message)), true
	case policy.Wait:
		return notice.Normal("JoinRequested", "Wait", fmt.Sprintf("%s waits: %s", request, decision.Message)), true
	case policy.Leave:
	}
	return notice.Event{}, false
}

// tell sends the event of a decision, about the Cluster, where its user looks.
func tell(recorder events.EventRecorder, cluster *v1alpha1.Cluster, csr *certificatesv1.CertificateSigningRequest, decision policy.Decision) {
	if told, worth := decisionEvent(csr.Name, decision); worth {
		told.With(csr).Send(recorder, cluster)
	}
}
