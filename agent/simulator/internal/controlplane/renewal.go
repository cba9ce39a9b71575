package controlplane

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// renewalRetry is the time until the next attempt to renew certificates after one that failed. A third of a certificate's
// lifetime is left then.
const renewalRetry = 10 * time.Minute

// renewCertificates renews the certificates of this program before they end, for as long as the cluster runs. Components and
// clients read the files again, and none is started again.
func (s *supervisor) renewCertificates(ctx context.Context) {
	for next := s.renewAt; !next.IsZero(); {
		timer := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		renewAt, err := s.identities.ensureFiles(s.cluster, s.options)
		if err != nil {
			s.printStep("renewing certificates failed, trying again in %s: %v", renewalRetry, err)
			next = time.Now().Add(renewalRetry)
			continue
		}
		s.printStep("renewed certificates, the next ones are due on %s", renewAt.Format(time.DateOnly))
		next = renewAt
	}
}

// adminConfig is the administrator's, with the files of the certificate, so that this process follows them too.
func (s *supervisor) adminConfig() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.layout.AdminKubeconfig())
	if err != nil {
		return nil, fmt.Errorf("reading the admin kubeconfig: %w", err)
	}
	config.CertData, config.KeyData = nil, nil
	config.CertFile, config.KeyFile = s.identities.clientPaths(admin)
	return config, nil
}
