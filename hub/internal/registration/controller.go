// Package registration lets agents have their certificates: it decides on the certificate requests that agents
// make on the hub, as package policy says. The hub's own certificate controllers sign what is approved, and remove
// what is over.
package registration

import (
	"context"
	"errors"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/registration/policy"
)

// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests,verbs=get;list;watch
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests/approval,verbs=update
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=signers,resourceNames=kubernetes.io/kube-apiserver-client,verbs=approve
// +kubebuilder:rbac:groups=hollowfleet.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Deps is what the controller needs. All of it is required.
type Deps struct {
	// Client reads from the cache and writes.
	Client   client.Client
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
}

// Controller decides on the certificate requests of agents.
type Controller struct{ Deps }

// New returns a Controller.
func New(deps Deps) (*Controller, error) {
	if deps.Client == nil || deps.Recorder == nil || deps.Clock == nil {
		return nil, errors.New("making the registration controller: a dependency is missing")
	}
	return &Controller{Deps: deps}, nil
}

// Reconcile implements reconcile.Reconciler.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	csr := &certificatesv1.CertificateSigningRequest{}
	if err := c.Client.Get(ctx, request.NamespacedName, csr); err != nil {
		return reconcile.Result{}, ignoreNotFound("getting the certificate request", err)
	}
	if !policy.Open(csr) {
		return reconcile.Result{}, nil
	}
	cluster, err := c.clusterOf(ctx, csr)
	if err != nil {
		return reconcile.Result{}, err
	}
	decision := policy.Decide(csr, cluster)
	if err := c.carryOut(ctx, csr, decision); err != nil {
		if apierrors.IsConflict(err) {
			return reconcile.Result{}, nil // Somebody else has written it; the cache will show what, and wake us.
		}
		return reconcile.Result{}, ignoreNotFound("deciding on the certificate request", err)
	}
	count(decision)
	if cluster != nil {
		tell(c.Recorder, cluster, csr, decision)
	}
	return reconcile.Result{}, nil
}

func ignoreNotFound(doing string, err error) error {
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// clusterOf returns the Cluster that the request's name tells, nil if there is none.
func (c *Controller) clusterOf(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) (*v1alpha1.Cluster, error) {
	name, ours := policy.ClusterOf(csr.Name)
	if !ours {
		return nil, nil
	}
	cluster := &v1alpha1.Cluster{}
	err := c.Client.Get(ctx, client.ObjectKey{Name: name}, cluster)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("getting Cluster %s: %w", name, err)
	}
	return cluster, nil
}

// carryOut writes the decision into the request. The update carries the version that was decided on, so that it is
// lost if the request has changed meanwhile.
func (c *Controller) carryOut(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, decision policy.Decision) error {
	var condition certificatesv1.RequestConditionType
	switch decision.Verdict {
	case policy.Approve:
		condition = certificatesv1.CertificateApproved
	case policy.Deny:
		condition = certificatesv1.CertificateDenied
	case policy.Wait, policy.Leave:
		return nil
	}
	log := klog.FromContext(ctx).WithValues("CertificateSigningRequest", klog.KObj(csr), "Cluster", decision.Cluster)
	log.Info("Deciding on the certificate request of an agent", "verdict", decision.Verdict, "reason", decision.Reason, "why", decision.Message)
	decided := csr.DeepCopy()
	now := metav1.NewTime(c.Clock.Now())
	decided.Status.Conditions = append(decided.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: condition, Status: corev1.ConditionTrue, Reason: decision.Reason, Message: decision.Message,
		LastUpdateTime: now, LastTransitionTime: now,
	})
	return c.Client.SubResource("approval").Update(ctx, decided)
}
