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

// hubCredential is where the hub is, and the credential with which the agent gets there.
type hubCredential struct {
	clients.Source
	// server is where the hub was when the agent started.
	server string
	// follow keeps the source fresh until its context ends.
	follow func(ctx context.Context) error
	// waiting says what the agent waits for to get a credential, empty while it has a good one.
	waiting func() string
}

// openCredential opens the place where the agent keeps what is its own, and makes the credential for a hub that it joins.
func (b *bootstrap) openCredential(ctx context.Context, target, host *clients.Direct, userAgent string) error {
	var err error
	if b.CredentialDir != "" {
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
		keeper := target
		if b.CredentialSecretCluster == CredentialInHost {
			keeper = host
		}
		store = clientcert.NewSecret(keeper.Ungated(clients.Keeping("Secret", key)), key)
	}
	b.credential, err = b.useJoinedCredential(ctx, store, userAgent)
	return err
}

// useReadyKubeconfig returns the credential of a kubeconfig that another program renews.
func (b *bootstrap) useReadyKubeconfig() (hubCredential, error) {
	files, err := clientcert.NewFiles(b.HubKubeconfig, b.clock, b.Log.WithName("clientcert"), b.acceptIdentity)
	if err != nil {
		return hubCredential{}, fmt.Errorf("--hub-kubeconfig: %w", err)
	}
	config, _, err := files.Current()
	if err != nil {
		return hubCredential{}, err
	}
	return hubCredential{Source: files, server: config.Host, follow: files.Run, waiting: func() string { return "" }}, nil
}

// useJoinedCredential returns the credential that the agent gets and keeps itself.
func (b *bootstrap) useJoinedCredential(ctx context.Context, store clientcert.Store, userAgent string) (hubCredential, error) {
	bounded, cancel := context.WithTimeout(ctx, longestTimeout)
	defer cancel()
	server, err := clientcert.Server(bounded, b.BootstrapKubeconfig, b.ClusterName, store)
	if err != nil {
		return hubCredential{}, &UsageError{Err: fmt.Errorf("--bootstrap-kubeconfig: %w", err)}
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
		return hubCredential{}, err
	}
	return hubCredential{Source: credentials, server: server, follow: credentials.Run, waiting: credentials.Waiting}, nil
}

// connectHub makes clients that follow the credential for the hub. Probes and reports have connections of their own.
func (b *bootstrap) connectHub(ctx context.Context, target, host *clients.Direct, userAgent string) error {
	var err error
	if err := b.openCredential(ctx, target, host, userAgent); err != nil {
		return err
	}
	if b.hub, err = clients.Rotating(b.credential, b.credential.server, userAgent); err != nil {
		return fmt.Errorf("connecting to the hub: %w", err)
	}
	own, err := clients.Rotating(b.credential, b.credential.server, userAgent)
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
	if waiting := b.credential.waiting(); err != nil && waiting != "" && !errors.As(err, &none) {
		return fmt.Errorf("%w; waiting for %s", err, waiting)
	}
	return err
}
