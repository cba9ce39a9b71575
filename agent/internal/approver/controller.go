package approver

import (
	"context"
	"errors"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// approvedReason stands in the Approved condition of a request.
const approvedReason = "HollowfleetApproved"

// Deps are what a Controller works with. All are required.
type Deps struct {
	// ClusterName is the agent's cluster and the name of its namespace on the hub.
	ClusterName string
	// BootstrapUser is the user name of the ServiceAccount of bootstrap tokens.
	BootstrapUser string
	// Hub reads Machines from the cache.
	Hub client.Reader
	// Target reads requests from the cache; its writes are refused while frozen.
	Target client.Client
	// TokenIDs returns the bootstrap tokens that were minted for a Machine, none if it has none.
	TokenIDs func(ctx context.Context, machine string) ([]string, error)
	Metrics  *Metrics
}

// Controller approves certificate requests.
type Controller struct{ Deps }

// New returns a Controller.
func New(deps Deps) (*Controller, error) {
	if deps.ClusterName == "" || deps.BootstrapUser == "" || deps.Hub == nil || deps.Target == nil || deps.TokenIDs == nil || deps.Metrics == nil {
		return nil, errors.New("the approver needs a cluster name, the bootstrap user, clients, token IDs and metrics")
	}
	return &Controller{Deps: deps}, nil
}

// Reconcile implements reconcile.Reconciler.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	csr := &certificatesv1.CertificateSigningRequest{}
	if err := c.Target.Get(ctx, request.NamespacedName, csr); err != nil {
		if apierrors.IsNotFound(err) {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("getting the certificate request: %w", err)
	}
	if !Open(csr) {
		return reconcile.Result{}, nil
	}
	facts, err := c.gather(ctx, csr)
	if err != nil {
		return reconcile.Result{}, err
	}
	verdict, why := Decide(csr, facts)
	if !verdict.Approves() {
		c.Metrics.decided(verdict)
		klog.FromContext(ctx).V(1).Info("Leaving a certificate request alone", "verdict", verdict, "why", why)
		return reconcile.Result{}, nil
	}
	err = c.approve(ctx, csr, why)
	var frozen *freeze.Error
	switch {
	case errors.As(err, &frozen), apierrors.IsNotFound(err):
		// The thaw wakes every open request.
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("approving the certificate request: %w", err)
	}
	c.Metrics.decided(verdict)
	return reconcile.Result{}, nil
}

// gather collects what the decision rests on. The hub is not asked about requests that cannot be the agent's.
func (c *Controller) gather(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) (Facts, error) {
	facts := Facts{BootstrapUser: c.BootstrapUser}
	name, err := nodeOf(csr)
	if err != nil {
		return facts, nil //nolint:nilerr // Decide comes to the same, and says so in its verdict
	}
	machine := &v1alpha1.Machine{}
	err = c.Hub.Get(ctx, client.ObjectKey{Namespace: c.ClusterName, Name: name}, machine)
	if apierrors.IsNotFound(err) {
		return facts, nil
	}
	if err != nil {
		return facts, fmt.Errorf("getting machine %s: %w", name, err)
	}
	facts.MachineLive = machine.DeletionTimestamp.IsZero()
	if csr.Spec.Username == c.BootstrapUser {
		if facts.TokenIDs, err = c.TokenIDs(ctx, name); err != nil {
			return facts, err
		}
	}
	return facts, nil
}

func (c *Controller) approve(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, why string) error {
	approved := csr.DeepCopy()
	approved.Status.Conditions = append(approved.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: approvedReason,
		Message: "Approved by the agent of cluster " + c.ClusterName + ": " + why, LastUpdateTime: metav1.Now(),
	})
	return c.Target.SubResource("approval").Update(ctx, approved)
}

// Open tells whether nobody has decided on a request yet.
func Open(csr *certificatesv1.CertificateSigningRequest) bool {
	for _, condition := range csr.Status.Conditions {
		switch condition.Type {
		case certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
			return false
		}
	}
	return true
}

// nodeIndex finds requests by the node whose identity they ask for.
const nodeIndex = "nodeName"

// Index lets a cache find requests by node. Remove needs it.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &certificatesv1.CertificateSigningRequest{}, nodeIndex, func(object client.Object) []string {
		csr, ok := object.(*certificatesv1.CertificateSigningRequest)
		if !ok {
			return nil
		}
		if name, err := nodeOf(csr); err == nil {
			return []string{name}
		}
		return nil
	})
}

// Remove deletes the requests that were made for a Machine's Node: by its hollow-node before it joined, or by the
// Node itself. It implements machine.RequestRemover.
func (c *Controller) Remove(ctx context.Context, nodeName string) error {
	requests := &certificatesv1.CertificateSigningRequestList{}
	if err := c.Target.List(ctx, requests, client.MatchingFields{nodeIndex: nodeName}); err != nil {
		return fmt.Errorf("listing certificate requests: %w", err)
	}
	for i := range requests.Items {
		csr := &requests.Items[i]
		if csr.Spec.Username != c.BootstrapUser && csr.Spec.Username != nodeUserPrefix+nodeName {
			continue
		}
		if err := c.Target.Delete(ctx, csr, client.Preconditions{UID: &csr.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting certificate request %s: %w", csr.Name, err)
		}
	}
	return nil
}
