// Package csrapprover decides on the certificate requests of kubelets in the target cluster.
//
// It approves only what it knows to be right: the first request of a hollow-node, made with the bootstrap token
// that was minted for exactly that Machine, for exactly the identity of that Machine's Node; renewals that a
// node makes for itself; and a node's serving certificate for its own name and the addresses that its host gave it. A Node of that name that is not the Machine's stops all: the certificate would be good for its
// identity. Everything else it leaves alone: it may be meant for another approver.
package csrapprover

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/node"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/certrequest"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

// approvedReason stands in the Approved condition of a request.
const approvedReason = "HollowfleetApproved"

// conflictRecheck is how soon a request is looked at again that waits for the end of a Node of its Machine's name, for the
// repair of its Machine, or for the host to report the address of its hollow node.
const conflictRecheck = 15 * time.Second

// Identities tells what the hollow nodes of Machines prove themselves with.
type Identities interface {
	// ProviderID is what the hollow node of a Machine registers its Node with.
	ProviderID(machine string) string
	// TokenIDs returns the bootstrap tokens that were minted for a Machine, none if it has none.
	TokenIDs(ctx context.Context, machine string) ([]string, error)
	// Addresses returns the addresses of the hollow node of a Machine, as its host knows them; none if it has none.
	Addresses(ctx context.Context, machine string) ([]netip.Addr, error)
}

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
	// TargetReader reads Nodes from the target's API server.
	TargetReader client.Reader
	Identities   Identities
	Metrics      *Metrics
}

// Controller approves certificate requests.
type Controller struct{ Deps }

// New returns a Controller.
func New(deps Deps) (*Controller, error) {
	if deps.ClusterName == "" || deps.BootstrapUser == "" || deps.Hub == nil || deps.Target == nil || deps.TargetReader == nil ||
		deps.Identities == nil || deps.Metrics == nil {
		return nil, errors.New("csrapprover.Deps: ClusterName, BootstrapUser, Hub, Target, TargetReader, Identities and Metrics are required")
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
	if !certrequest.Open(csr) {
		return reconcile.Result{}, nil
	}
	facts, err := c.gatherFacts(ctx, csr)
	if err != nil {
		return reconcile.Result{}, err
	}
	verdict, why := Decide(csr, facts)
	if !verdict.Approves() {
		c.Metrics.countDecision(verdict)
		klog.FromContext(ctx).V(1).Info("Leaving a certificate request alone", "verdict", verdict, "why", why)
		if verdict == NodeConflict || verdict == MachineUndecodable || verdict == OtherAddress {
			return reconcile.Result{RequeueAfter: conflictRecheck}, nil
		}
		return reconcile.Result{}, nil
	}
	err = c.approveRequest(ctx, csr, why)
	var frozen *freeze.Error
	switch {
	case errors.As(err, &frozen), apierrors.IsNotFound(err):
		// The thaw wakes every open request.
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("approving the certificate request: %w", err)
	}
	c.Metrics.countDecision(verdict)
	return reconcile.Result{}, nil
}

// gatherFacts collects what the decision rests on. The hub is not asked about requests that cannot be the agent's.
func (c *Controller) gatherFacts(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) (Facts, error) {
	facts := Facts{BootstrapUser: c.BootstrapUser}
	asked, err := readRequest(csr)
	name := asked.node
	if err != nil {
		return facts, nil //nolint:nilerr // Decide comes to the same, and says so in its verdict
	}
	machine := &v1alpha1.Machine{}
	err = c.Hub.Get(ctx, client.ObjectKey{Namespace: c.ClusterName, Name: name}, machine)
	if apierrors.IsNotFound(err) {
		return facts, nil
	}
	// A Machine that cannot be decoded has its metadata, which is all that this asks of it.
	if facts.MachineUndecodable = undecodable.Is(err); facts.MachineUndecodable {
		err = nil
	}
	if err != nil {
		return facts, fmt.Errorf("getting machine %s: %w", name, err)
	}
	facts.MachineLive = machine.DeletionTimestamp.IsZero()
	providerIDs := []string{c.Identities.ProviderID(name)}
	if csr.Spec.Username == c.BootstrapUser {
		if facts.TokenIDs, err = c.Identities.TokenIDs(ctx, name); err != nil {
			return facts, err
		}
	} else {
		// A Node that renews its certificate may be of any provider.
		providerIDs = append(providerIDs, node.UnknownProviderID)
	}
	if asked.serving {
		if facts.Addresses, err = c.Identities.Addresses(ctx, name); err != nil {
			return facts, err
		}
	}
	facts.NodeConflict, err = node.Conflict(ctx, c.TargetReader, machine, providerIDs)
	return facts, err
}

func (c *Controller) approveRequest(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, why string) error {
	approved := csr.DeepCopy()
	approved.Status.Conditions = append(approved.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: approvedReason,
		Message: "Approved by the agent of cluster " + c.ClusterName + ": " + why, LastUpdateTime: metav1.Now(),
	})
	return c.Target.SubResource("approval").Update(ctx, approved)
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
// Node itself. It is called when the Machine's Node is gone: a Node of that name is another one, and keeps the requests
// that it made itself. It implements machine.Requests.
func (c *Controller) Remove(ctx context.Context, nodeName string) error {
	err := c.TargetReader.Get(ctx, client.ObjectKey{Name: nodeName}, &corev1.Node{})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("getting node %s: %w", nodeName, err)
	}
	otherNode := err == nil
	requests := &certificatesv1.CertificateSigningRequestList{}
	if err := c.Target.List(ctx, requests, client.MatchingFields{nodeIndex: nodeName}); err != nil {
		return fmt.Errorf("listing certificate requests: %w", err)
	}
	for i := range requests.Items {
		csr := &requests.Items[i]
		byNode := csr.Spec.Username == nodeUserPrefix+nodeName && !otherNode
		if csr.Spec.Username != c.BootstrapUser && !byNode {
			continue
		}
		if err := c.Target.Delete(ctx, csr, client.Preconditions{UID: &csr.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting certificate request %s: %w", csr.Name, err)
		}
	}
	return nil
}

// Nodes returns the names of the nodes for which hollow-nodes have asked to join.
func (c *Controller) Nodes(ctx context.Context) ([]string, error) {
	requests := &certificatesv1.CertificateSigningRequestList{}
	if err := c.Target.List(ctx, requests, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing certificate requests: %w", err)
	}
	var nodes []string
	for i := range requests.Items {
		if requests.Items[i].Spec.Username != c.BootstrapUser {
			continue
		}
		if name, err := nodeOf(&requests.Items[i]); err == nil {
			nodes = append(nodes, name)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes), nil
}

// OnThaw returns a source that asks for a look at every open request when the agent has thawed.
func (c *Controller) OnThaw(checker freeze.Checker, changes <-chan struct{}) func(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	return func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		go freeze.OnThaw(ctx, checker, changes, func(ctx context.Context) { c.wakeAll(ctx, queue) })
		return nil
	}
}

func (c *Controller) wakeAll(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	requests := &certificatesv1.CertificateSigningRequestList{}
	if err := c.Target.List(ctx, requests); err != nil {
		klog.FromContext(ctx).Error(err, "Waking the certificate requests after the freeze failed")
		return
	}
	for i := range requests.Items {
		if certrequest.Open(&requests.Items[i]) && IsKubelets(&requests.Items[i]) {
			queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&requests.Items[i])})
		}
	}
}

// Metrics of the approver.
type Metrics struct {
	decisions *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hollowfleet_agent_certificate_requests_total",
		Help: "Certificate requests of kubelets by verdict. Join, Renewal and Serving were approved, all others ignored.",
	}, []string{"verdict"})}
	registerer.MustRegister(m.decisions)
	for _, verdict := range Verdicts {
		m.decisions.WithLabelValues(string(verdict))
	}
	return m
}

func (m *Metrics) countDecision(verdict Decision) { m.decisions.WithLabelValues(string(verdict)).Inc() }
