// Package csrapprover lets agents have their certificates: it decides on the certificate requests that agents
// make on the hub, as package policy says. The hub's own certificate controllers sign what is approved, and remove
// what is over. A join token is deleted when the agent that joined with it is heard of.
package csrapprover

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/certrequest"
	"github.com/hollowfleet/hollowfleet/internal/joining"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests,verbs=get;list;watch
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests/approval,verbs=update
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=signers,resourceNames=kubernetes.io/kube-apiserver-client,verbs=approve
// +kubebuilder:rbac:groups=hollowfleet.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=clusters/status,verbs=get;patch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=simulatedclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
//
// config/rbac/hub/role_join_tokens.yaml lets the hub delete join tokens.

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
	objects, err := c.observe(ctx, csr)
	if err != nil {
		return reconcile.Result{}, err
	}
	cluster := objects.Cluster
	if !certrequest.Open(csr) {
		return reconcile.Result{}, c.deleteSpentToken(ctx, csr, cluster)
	}
	decision := Decide(csr, objects)
	key := keyOf(csr.Spec.Request)
	again := JoinsAgain(decision, cluster, key)
	if err := c.recordJoinKey(ctx, cluster, decision, key); err != nil {
		return reconcile.Result{}, err
	}
	if again {
		// Before the approval: a second try would find the key recorded, and nothing to warn of.
		joinedAgainEvent(csr.Name, decision).With(relatedRequest(csr.Name)).Send(c.Recorder, cluster)
	}
	if err := c.carryOut(ctx, csr, decision); err != nil {
		if apierrors.IsConflict(err) {
			return reconcile.Result{}, nil // Another client has written it; the cache will show what, and wake us.
		}
		return reconcile.Result{}, ignoreNotFound("deciding on the certificate request", err)
	}
	countDecision(decision)
	if about := cmp.Or(cluster, objects.Host); about != nil {
		emitEvent(c.Recorder, about, csr.Name, decision)
	}
	return reconcile.Result{}, nil
}

// recordJoinKey writes the key of a join that is about to be approved into the Cluster: before the approval, because the client may
// delete the request as soon as it has its certificate. The lock keeps a Cluster that the cache shows too late from hiding an earlier key.
func (c *Controller) recordJoinKey(ctx context.Context, cluster *v1alpha1.Cluster, decision Decision, key string) error {
	if cluster == nil || !approvesJoin(decision) || cluster.Status.JoinKey == key {
		return nil
	}
	recorded := cluster.DeepCopy()
	recorded.Status.JoinKey = key
	if err := c.Client.Status().Patch(ctx, recorded, reconciler.MergeFromWithLock(cluster)); err != nil {
		return ignoreNotFound("recording the key of the agent that joins", err)
	}
	return nil
}

// deleteSpentToken deletes the join token with which a request was made once it is of no more use to its agent: any other
// client that has it could keep asking for certificates until it expires.
func (c *Controller) deleteSpentToken(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, cluster *v1alpha1.Cluster) error {
	id, spent := SpentToken(csr, cluster)
	if !spent {
		return nil
	}
	key := joining.SecretKey(id)
	err := c.Client.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("deleting the join token of cluster %s: %w", cluster.Name, err)
	}
	klog.FromContext(ctx).Info("Deleted the join token of an agent that has joined", "Cluster", cluster.Name, "Secret", key)
	tokenDeletedEvent(key.Name).Send(c.Recorder, cluster)
	return nil
}

func ignoreNotFound(doing string, err error) error {
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// observe reads what the request's name tells of.
func (c *Controller) observe(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) (objects Objects, err error) {
	host, name, ours := certrequest.ParseName(csr.Name)
	if !ours || name == "" {
		return Objects{}, nil
	}
	if objects.Cluster, err = c.clusterOf(ctx, name); err != nil || host == "" {
		return objects, err
	}
	if objects.Host, err = c.clusterOf(ctx, host); err != nil {
		return objects, err
	}
	hosted := &v1alpha1.SimulatedCluster{}
	switch err := c.Client.Get(ctx, client.ObjectKey{Namespace: host, Name: name}, hosted); {
	case err == nil:
		objects.Hosted = hosted
	case !apierrors.IsNotFound(err):
		return objects, fmt.Errorf("getting SimulatedCluster %s/%s: %w", host, name, err)
	}
	return objects, nil
}

// clusterOf returns the Cluster of that name, nil if there is none.
func (c *Controller) clusterOf(ctx context.Context, name string) (*v1alpha1.Cluster, error) {
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
func (c *Controller) carryOut(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, decision Decision) error {
	var condition certificatesv1.RequestConditionType
	switch decision.Verdict {
	case Approve:
		condition = certificatesv1.CertificateApproved
	case Deny:
		condition = certificatesv1.CertificateDenied
	case Wait, Leave:
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
		"Approving %s although another agent of this cluster has joined or was approved before: %s. If you did not let the agent join again, set spec.acceptance to Denied", request, decision.Message))
}

// emitEvent sends the event of a decision, about the Cluster, where its user looks.
func emitEvent(recorder events.EventRecorder, cluster *v1alpha1.Cluster, request string, decision Decision) {
	if told, worth := decisionEvent(request, decision); worth {
		told.With(relatedRequest(request)).Send(recorder, cluster)
	}
}

// relatedRequest refers to a request without its UID: a client with a join token may create and delete its request as often as it
// likes, and with the UID each of them would be an Event of its own on the hub instead of one series.
func relatedRequest(name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: certificatesv1.SchemeGroupVersion.String(), Kind: "CertificateSigningRequest", Name: name}
}

var decisions = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "hollowfleet_hub_certificate_requests_total",
	Help: "Decisions on certificate requests of agents, by decision (Approved, Denied, Waiting, Left) and reason. A waiting request is counted at every check.",
}, []string{"decision", "reason"})

func init() {
	metrics.Registry.MustRegister(decisions)
	for verdict, reasons := range countedDecisions {
		for _, reason := range reasons {
			decisions.WithLabelValues(string(verdict), reason)
		}
	}
}

// countedDecisions are all decisions. They are counted from 0 on.
var countedDecisions = map[Verdict][]string{
	Approve: {ReasonJoined, ReasonRenewed, ReasonHosted},
	Deny: {
		ReasonWrongName, ReasonWrongRequest, ReasonWrongSubject, ReasonExtensions, ReasonWeakKey, ReasonWrongUsages, ReasonWrongExpiration,
		ReasonWrongRequester, ReasonClusterDeleting, ReasonClusterDenied, ReasonNotHosted, ReasonHostSimulated,
	},
	Wait:  {ReasonClusterNotFound, ReasonAwaitingAcceptance, ReasonSimulatedNotFound},
	Leave: {ReasonNotAnAgent},
}

func countDecision(decision Decision) {
	decisions.WithLabelValues(string(decision.Verdict), decision.Reason).Inc()
}
