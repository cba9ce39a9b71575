package pods

import (
	"context"
	"fmt"
	"slices"
	"time"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/pods/rendering"
)

// judgedFor is how long what is known of certificates is told again without asking: they last for months.
const judgedFor = 15 * time.Second

// judgement is what is known of the certificates of a cluster.
type judgement struct {
	at       time.Time
	message  string
	isBroken bool
}

// judgeCertificates says who makes the certificates of a cluster, and what is wrong with them. isMade is that all its objects were made once.
func (d *Driver) judgeCertificates(ctx context.Context, namespace *corev1.Namespace, isMade bool) (message string, isBroken bool) {
	if rendering.PKI(namespace.Annotations[rendering.CertificatesAnnotation]) != rendering.CertManager {
		return "certificates are made by the host's agent", false
	}
	uid, now := namespace.Labels[rendering.UIDLabel], d.Clock.Now()
	d.mu.Lock()
	known := d.judged[uid]
	d.mu.Unlock()
	if !known.at.IsZero() && now.Sub(known.at) < judgedFor {
		return known.message, known.isBroken
	}
	list := &certmanagerv1.CertificateList{}
	judged := judgement{at: now}
	if err := d.client.List(ctx, list, client.InNamespace(namespace.Name), client.MatchingLabels{rendering.UIDLabel: uid}); err != nil {
		judged.message, judged.isBroken = fmt.Sprintf("certificates by cert-manager: they cannot be read: %v", err), true
	} else if missing := missingCertificate(list.Items); missing != "" && isMade {
		judged.message = fmt.Sprintf("certificates by cert-manager: Certificate %s is missing: the host's agent makes it again; if it stays so, its log says why", missing)
		d.requestRepair(now)
	} else {
		judged.message, judged.isBroken = describeCertificates(list.Items, now)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.judged[uid] = judged
	return judged.message, judged.isBroken
}

// missingCertificate names one that is not there; empty if all are.
func missingCertificate(found []certmanagerv1.Certificate) string {
	for _, wanted := range append([]rendering.Certificate{{Name: rendering.Authority}}, rendering.Certificates("")...) {
		name := rendering.SecretOf(wanted.Name)
		if !slices.ContainsFunc(found, func(each certmanagerv1.Certificate) bool { return each.Name == name }) {
			return name
		}
	}
	return ""
}

// describeCertificates names the first certificate that is not as it should be, the authority before what it signs. One that is issued for
// the first time is not broken.
func describeCertificates(found []certmanagerv1.Certificate, now time.Time) (message string, isBroken bool) {
	isAuthority := func(certificate certmanagerv1.Certificate) bool { return certificate.Spec.IsCA }
	if i := slices.IndexFunc(found, isAuthority); i > 0 {
		found[0], found[i] = found[i], found[0]
	}
	for i := range found {
		each := &found[i]
		ready := conditionOf(each, certmanagerv1.CertificateConditionReady)
		switch {
		case each.Status.NotAfter != nil && !now.Before(each.Status.NotAfter.Time):
			return fmt.Sprintf("certificates by cert-manager: %s has expired on %s and was not renewed: look at cert-manager", each.Name, each.Status.NotAfter.UTC().Format(time.RFC3339)), true
		case ready == nil:
			return fmt.Sprintf("certificates by cert-manager: %s is not issued yet: if it stays so, look at cert-manager on the host", each.Name), false
		case ready.Status != cmmeta.ConditionTrue:
			return fmt.Sprintf("certificates by cert-manager: %s is not ready: %s: %s", each.Name, ready.Reason, ready.Message), each.Status.FailedIssuanceAttempts != nil
		}
	}
	return "certificates by cert-manager", false
}

func conditionOf(certificate *certmanagerv1.Certificate, kind certmanagerv1.CertificateConditionType) *certmanagerv1.CertificateCondition {
	for i := range certificate.Status.Conditions {
		if certificate.Status.Conditions[i].Type == kind {
			return &certificate.Status.Conditions[i]
		}
	}
	return nil
}
