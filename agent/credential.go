package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/clientcert"
	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
)

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
func (b *bootstrap) openCredential(ctx context.Context, target *clients.Direct, userAgent string) error {
	if b.CredentialDir != "" {
		var err error
		if b.dir, err = clientcert.NewDir(b.CredentialDir); err != nil {
			return &UsageError{Err: fmt.Errorf("--credential-dir: %w", err)}
		}
	}
	if b.HubKubeconfig != "" {
		return nil
	}
	var store clientcert.Store = b.dir
	if b.CredentialSecret != "" {
		key, err := b.secretKey()
		if err != nil {
			return &UsageError{Err: err}
		}
		store = clientcert.NewSecret(target.Ungated(clients.Keeping("Secret", key)), key)
	}
	var err error
	b.way, err = b.useJoinedCredential(ctx, store, userAgent)
	return err
}

// useReadyKubeconfig is the way with a kubeconfig that another program renews.
func (b *bootstrap) useReadyKubeconfig() (way, error) {
	files, err := clientcert.NewFiles(b.HubKubeconfig, b.clock, b.Log.WithName("clientcert"), b.acceptIdentity)
	if err != nil {
		return way{}, fmt.Errorf("--hub-kubeconfig: %w", err)
	}
	config, _, err := files.Current()
	if err != nil {
		return way{}, err
	}
	return way{Source: files, server: config.Host, follow: files.Run, waiting: func() string { return "" }}, nil
}

// useJoinedCredential is the way with a credential that the agent gets and keeps itself.
func (b *bootstrap) useJoinedCredential(ctx context.Context, store clientcert.Store, userAgent string) (way, error) {
	bounded, cancel := context.WithTimeout(ctx, longestTimeout)
	defer cancel()
	server, err := clientcert.Server(bounded, b.BootstrapKubeconfig, b.ClusterName, store)
	if err != nil {
		return way{}, &UsageError{Err: fmt.Errorf("--bootstrap-kubeconfig: %w", err)}
	}
	credentials, err := clientcert.New(clientcert.Options{
		Cluster: b.ClusterName, Bootstrap: b.BootstrapKubeconfig, Store: store, Lifetime: b.CertificateLifetime,
		Dial: func(config *rest.Config) (client.Client, error) {
			own := rest.CopyConfig(config)
			own.UserAgent = userAgent
			direct, err := clients.NewDirect(own)
			if err != nil {
				return nil, err
			}
			return direct.Ungated(clients.Credentials(b.ClusterName)), nil
		},
		Random: rand.Float64, Runtime: b.pollRuntime("clientcert"), Metrics: b.credentialMetrics,
	})
	if err != nil {
		return way{}, err
	}
	return way{Source: credentials, server: server, follow: credentials.Run, waiting: credentials.Waiting}, nil
}

// connectHub makes clients that follow the credential for the hub. Probes and reports have connections of their own.
func (b *bootstrap) connectHub(ctx context.Context, target *clients.Direct, userAgent string) error {
	var err error
	if err := b.openCredential(ctx, target, userAgent); err != nil {
		return err
	}
	if b.hub, err = clients.Rotating(b.way, b.way.server, userAgent); err != nil {
		return fmt.Errorf("connecting to the hub: %w", err)
	}
	own, err := clients.Rotating(b.way, b.way.server, userAgent)
	if err != nil {
		return fmt.Errorf("connecting to the hub: %w", err)
	}
	if b.hubDirect, err = clients.NewDirect(own); err != nil {
		return fmt.Errorf("connecting to the hub: %w", err)
	}
	return nil
}

// probeHub also says what the agent does about a credential that the hub does not know any more.
func (b *bootstrap) probeHub(ctx context.Context) error {
	err := b.hubProbe.Probe(ctx)
	b.denial.Probed(err, b.hubProbe.Cluster())
	var none *clientcert.NotYetError
	if waiting := b.way.waiting(); err != nil && waiting != "" && !errors.As(err, &none) {
		return fmt.Errorf("%w; waiting for %s", err, waiting)
	}
	return err
}
