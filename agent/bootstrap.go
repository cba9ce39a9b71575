package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/google/uuid"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/clientcert"
	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/agent/internal/clusterstatus"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/hubidentity"
	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/version"
)

// leaveTimeout bounds the agent's last word to the hub.
const leaveTimeout = 3 * time.Second

// way is the agent's way to the hub.
type way struct {
	clients.Source
	// server is where the hub was when the agent started.
	server string
	// follow keeps the source fresh until its context ends.
	follow func(ctx context.Context) error
	// waiting says what the agent waits for to get a credential, empty while it has a good one.
	waiting func() string
}

// openCredential opens the place where the agent keeps what is its own, and makes the way to a hub that it joins.
func (a *agent) openCredential(ctx context.Context, target *clients.Direct, userAgent string) error {
	if a.CredentialDir != "" {
		var err error
		if a.dir, err = clientcert.NewDir(a.CredentialDir); err != nil {
			return &UsageError{Err: fmt.Errorf("--credential-dir: %w", err)}
		}
	}
	if a.HubKubeconfig != "" {
		return nil
	}
	var store clientcert.Store = a.dir
	if a.CredentialSecret != "" {
		key, err := a.secretKey()
		if err != nil {
			return &UsageError{Err: err}
		}
		store = clientcert.NewSecret(target.Ungated(clients.Keeping("Secret", key)), key)
	}
	var err error
	a.way, err = a.joining(ctx, store, userAgent)
	return err
}

// ready is the way with a kubeconfig that another program renews.
func (a *agent) ready() (way, error) {
	files, err := clientcert.NewFiles(a.HubKubeconfig, a.clock, a.Log.WithName("clientcert"), a.acceptIdentity)
	if err != nil {
		return way{}, fmt.Errorf("--hub-kubeconfig: %w", err)
	}
	config, _, err := files.Current()
	if err != nil {
		return way{}, err
	}
	return way{Source: files, server: config.Host, follow: files.Run, waiting: func() string { return "" }}, nil
}

// joining is the way with a credential that the agent gets and keeps itself.
func (a *agent) joining(ctx context.Context, store clientcert.Store, userAgent string) (way, error) {
	bounded, cancel := context.WithTimeout(ctx, longestTimeout)
	defer cancel()
	server, err := clientcert.Server(bounded, a.BootstrapKubeconfig, a.ClusterName, store)
	if err != nil {
		return way{}, &UsageError{Err: fmt.Errorf("--bootstrap-kubeconfig: %w", err)}
	}
	credentials, err := clientcert.New(clientcert.Options{
		Cluster: a.ClusterName, Bootstrap: a.BootstrapKubeconfig, Store: store, Lifetime: a.CertificateLifetime,
		Dial: func(config *rest.Config) (client.Client, error) {
			own := rest.CopyConfig(config)
			own.UserAgent = userAgent
			direct, err := clients.NewDirect(own)
			if err != nil {
				return nil, err
			}
			return direct.Ungated(clients.Credentials(a.ClusterName)), nil
		},
		Random: rand.Float64, Clock: a.clock, Log: a.Log.WithName("clientcert"), Metrics: a.credentialMetrics,
	})
	if err != nil {
		return way{}, err
	}
	return way{Source: credentials, server: server, follow: credentials.Run, waiting: credentials.Waiting}, nil
}

// probeHub also says what the agent does about a credential that the hub does not know any more.
func (a *agent) probeHub(ctx context.Context) error {
	err := a.hubProbe.Probe(ctx)
	a.denial.Probed(err, a.hubProbe.Cluster())
	var none *clientcert.NotYetError
	if waiting := a.way.waiting(); err != nil && waiting != "" && !errors.As(err, &none) {
		return fmt.Errorf("%w; waiting for %s", err, waiting)
	}
	return err
}

// claim takes the credential directory, for which it waits, and gives this process its identity, which no other process has.
//
// With a directory, predecessors are the processes that had it before: the process that holds the directory's lock knows
// that they are no more, and goes on with their Lease at once. Without one a killed agent's successor waits until the
// Lease has expired.
func (a *agent) claim(ctx context.Context) (identity string, predecessors []string, err error) {
	host, err := os.Hostname()
	if err != nil {
		return "", nil, fmt.Errorf("reading the host's name: %w", err)
	}
	identity = host + "_" + uuid.NewString()
	if a.dir == nil {
		return identity, nil, nil
	}
	err = poll.Until(ctx, a.clock, joinInterval, func(context.Context) (claimed bool, err error) {
		predecessors, a.release, err = a.dir.Claim(identity)
		if !errors.Is(err, clientcert.ErrInUse) {
			return err == nil, err
		}
		if a.rival.CompareAndSwap(nil, &freeze.Blocker{
			Reason: v1alpha1.ReasonAnotherAgent, Since: a.clock.Now(),
			Message: fmt.Sprintf("another agent process uses %s; this one stands by until that one has ended", a.dir),
		}) {
			a.monitor.Look()
		}
		return false, nil
	})
	if err != nil {
		return "", nil, err
	}
	a.rival.Store(nil)
	return identity, predecessors, nil
}

// leaseBlocker tells why this agent may not act now, however well the API servers are.
func (a *agent) leaseBlocker() (freeze.Blocker, bool) {
	if reporter := a.reporter.Load(); reporter != nil {
		return reporter.Blocked()
	}
	if rival := a.rival.Load(); rival != nil {
		return *rival, true
	}
	return freeze.Blocker{Reason: v1alpha1.ReasonLeaseNotHeld, Since: a.started, Message: "the cluster's Lease is not taken yet"}, true
}

// versionSkew tells why this agent may not work for a hub of the version that the Cluster tells.
func (a *agent) versionSkew() (freeze.Blocker, bool) {
	cluster := a.hubProbe.Cluster()
	if cluster == nil {
		return freeze.Blocker{}, false
	}
	message := version.UnsupportedSkew(a.Version, cluster.Status.HubVersion)
	if message == "" {
		a.skewed.Store(nil)
		return freeze.Blocker{}, false
	}
	known := a.skewed.Load()
	if known == nil || known.Message != message {
		known = &freeze.Blocker{Reason: v1alpha1.ReasonVersionSkew, Message: message, Since: a.clock.Now()}
		a.skewed.Store(known)
	}
	return *known, true
}

// leave gives up what makes others wait for this agent. It keeps the Lease when the agent failed: something of it
// may still be acting, so another one has to wait until the Lease expires.
func (a *agent) leave(ctx context.Context, failed error) {
	if reporter := a.reporter.Load(); reporter != nil && failed == nil {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
		defer cancel()
		if err := reporter.Release(last); err != nil {
			a.Log.Info("Giving up the Lease failed; another agent has to wait until it expires", "error", err)
		}
		if err := a.hubIdentity.Release(last); err != nil {
			a.Log.Info("Storing the last renewal of the Lease failed", "error", err)
		}
	}
	if a.release == nil {
		return
	}
	if errors.Is(failed, clusterstatus.ErrLeaseLost) {
		// The one that has the Lease may have come from a copy of this agent.
		if err := a.dir.Disown(); err != nil {
			a.Log.Error(err, "Forgetting the identity of an agent that has lost the Lease failed")
		}
	}
	a.release()
}

// newHubIdentity makes what knows the hub. It is stored on the host, by a client that is not gated.
func (a *agent) newHubIdentity(host *clients.Direct) (*hubidentity.Verifier, error) {
	key := hubidentity.StoreKey(a.HostNamespace, a.ClusterName)
	return hubidentity.New(hubidentity.Deps{
		Cluster: a.ClusterName, Store: hubidentity.NewStore(host.Ungated(clients.Keeping("ConfigMap", key)), a.HostNamespace, a.ClusterName),
		Hub: a.hubDirect.Reader, Last: a.hubProbe.Cluster, Seen: a.hubProbe.Seen, Changed: func() { a.monitor.Look() }, Saw: a.sawLease,
		Nonce: uuid.NewString, Clock: a.clock, Log: a.Log.WithName("hubidentity"), Metrics: hubidentity.NewMetrics(a.registry),
	})
}

// sawLease lets the reporter know of the Lease as the hub shows it when something is about to be done for the hub.
func (a *agent) sawLease(lease *coordinationv1.Lease) {
	if reporter := a.reporter.Load(); reporter != nil {
		reporter.SawLease(lease)
	}
}

// reportedCluster is the Cluster to report on, nil if there is none that the agent may.
func (a *agent) reportedCluster() *v1alpha1.Cluster {
	if _, out := a.denial.Blocked(); out {
		return nil
	}
	return a.hubProbe.Cluster()
}

// represent gives the agent its identity and credential, and reports for the cluster.
func (a *agent) represent(ctx context.Context) error {
	identity, predecessors, err := a.claim(ctx)
	if err != nil {
		return err
	}
	reporter, err := clusterstatus.New(clusterstatus.Deps{
		Client: a.hubDirect.Ungated(clients.Reports(a.ClusterName)), Cluster: a.reportedCluster, Seen: a.hubProbe.Seen, Target: a.targetProbe.Identity,
		Capacity: a.readCapacity, Orphans: a.readOrphans, Checks: a.readChecks, Freeze: a.monitor.Refresh, Changes: a.monitor.Subscribe(), LeaseChanged: a.monitor.Look,
		Uptime: a.monitor, HubIdentity: a.hubIdentity, Holder: identity, Predecessors: predecessors, AgentVersion: a.Version, Clock: a.clock, Log: a.Log.WithName("clusterstatus"),
	})
	if err != nil {
		return err
	}
	a.reporter.Store(reporter)
	following := make(chan error, 1)
	go func() { following <- a.way.follow(ctx) }()
	err = reporter.Start(ctx)
	if err != nil {
		return err
	}
	return <-following
}

// checkIdentity makes sure that the hub knows a ready kubeconfig's user as this cluster's agent. A credential that the agent
// has got by joining is its own.
func (a *agent) checkIdentity(ctx context.Context) error {
	if a.HubKubeconfig == "" {
		return nil
	}
	if err := a.identify(ctx, a.hubDirect); err != nil {
		return fmt.Errorf("--hub-kubeconfig: %w", err)
	}
	return nil
}

// acceptIdentity is checkIdentity for a kubeconfig that is exchanged while the agent runs.
func (a *agent) acceptIdentity(ctx context.Context, config *rest.Config) error {
	own := rest.CopyConfig(config)
	own.UserAgent = a.userAgent()
	hub, err := clients.NewDirect(own)
	if err != nil {
		return fmt.Errorf("connecting to the hub: %w", err)
	}
	return a.identify(ctx, hub)
}

// identify asks the hub who this agent is there, until it answers or has refused often enough to mean it, and fails if
// that is not this cluster's agent: no rule of the hub would bind an administrator or another cluster's agent to this one
// cluster.
func (a *agent) identify(ctx context.Context, direct *clients.Direct) error {
	hub := direct.Ungated(clients.Identity())
	refusals, said := 0, freeze.OK
	return poll.Until(ctx, a.clock, joinInterval, func(ctx context.Context) (identified bool, err error) {
		review := &authenticationv1.SelfSubjectReview{}
		bounded, cancel := context.WithTimeout(ctx, longestTimeout)
		err = hub.Create(bounded, review)
		cancel()
		if apierrors.IsForbidden(err) {
			refusals++
		} else {
			refusals = 0
		}
		switch {
		case err == nil:
			return true, clientcert.CheckIdentity(a.ClusterName, review.Status.UserInfo)
		case refusals == hubidentity.RefusalsToDeny:
			// Every identity may ask unless an administrator has taken that right away; RBAC decides then alone.
			a.Log.Info("Going on without knowing who this agent is on the hub", "Cluster", a.ClusterName, "why", err.Error())
			return true, nil
		}
		if outcome := freeze.Classify(err); outcome != said {
			a.Log.Info("Waiting to know who this agent is on the hub", "Cluster", a.ClusterName, "outcome", outcome, "why", clients.Diagnose(err).Error())
			said = outcome
		}
		return false, nil
	})
}
