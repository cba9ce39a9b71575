package csrapprover

import (
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/tools/events"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// decisionEvent is what to tell of a decision; nothing of one that is no news.
func decisionEvent(request string, decision Decision) (reconciler.Event, bool) {
	switch decision.Verdict {
	case Approve:
		return reconciler.NormalEvent("CertificateApproved", "Approve", fmt.Sprintf("Approved %s: %s", request, decision.Message)), true
	case Deny:
		return reconciler.WarningEvent("CertificateDenied", "Deny", fmt.Sprintf("Denied %s: %s: %s", request, decision.Reason, decision.Message)), true
	case Wait:
		return reconciler.NormalEvent("JoinRequested", "Wait", fmt.Sprintf("%s waits: %s", request, decision.Message)), true
	case Leave:
	}
	return reconciler.Event{}, false
}

func tokenDeletedEvent(secret string) reconciler.Event {
	return reconciler.NormalEvent("JoinTokenDeleted", "Delete", fmt.Sprintf("Deleted Secret kube-system/%s: the agent that joined with this token is connected", secret))
}

// joinedAgainEvent warns of a certificate for a client with a join token of a cluster that has an agent.
func joinedAgainEvent(request string, decision Decision) reconciler.Event {
	return reconciler.WarningEvent("JoinedAgain", "Approve", fmt.Sprintf(
		"Approved %s although the cluster has joined before: %s. If no user has let its agent join again, set its spec.acceptance to Denied", request, decision.Message))
}

// emitEvent sends the event of a decision, about the Cluster, where its user looks.
func emitEvent(recorder events.EventRecorder, cluster *v1alpha1.Cluster, csr *certificatesv1.CertificateSigningRequest, decision Decision) {
	if told, worth := decisionEvent(csr.Name, decision); worth {
		told.With(csr).Send(recorder, cluster)
	}
	if JoinsAgain(decision, cluster) {
		joinedAgainEvent(csr.Name, decision).With(csr).Send(recorder, cluster)
	}
}
