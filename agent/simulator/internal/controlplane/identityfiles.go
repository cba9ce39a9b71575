package controlplane

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/pki"
)

// externalPKI is a directory with certificates that another program makes and
// renews, such as cert-manager: one directory for each, with tls.crt and tls.key
// as a Secret of type kubernetes.io/tls has them. "ca" is the cluster's authority,
// which the controller manager signs certificates with; the others are called
// after the component that serves and connects with them, and "admin". Components
// read them again when they change.
type externalPKI string

const externalCA = "ca"

// pairPaths is where a certificate and its key are.
func (e externalPKI) pairPaths(name string) (certificate, key string) {
	return filepath.Join(string(e), name, "tls.crt"), filepath.Join(string(e), name, "tls.key")
}

// identityFiles are where the cluster's certificates are: in the data directory, where
// this program makes them, or in an external PKI if there is one.
type identityFiles struct {
	layout   Layout
	external externalPKI
}

func (f identityFiles) caPaths() (certificate, key string) {
	if f.external != "" {
		return f.external.pairPaths(externalCA)
	}
	return f.layout.CAFile(), f.layout.caKey()
}

// servingPaths is the certificate of a component's own port, and the one that the API
// server shows to kubelets.
func (f identityFiles) servingPaths(name string) (certificate, key string) {
	if f.external != "" {
		return f.external.pairPaths(name)
	}
	return f.layout.pkiPath(name + ".crt"), f.layout.pkiPath(name + ".key")
}

// clientPaths is the certificate of a user.
func (f identityFiles) clientPaths(user string) (certificate, key string) {
	if f.external != "" {
		return f.external.pairPaths(user)
	}
	return f.layout.clientPair(user) + ".crt", f.layout.clientPair(user) + ".key"
}

// ensureFiles makes what is missing, and returns when it is to be called again to renew it. If another program makes the
// certificates, it checks that they are there, and there is nothing to renew.
func (f identityFiles) ensureFiles(cluster state, options Options) (renewAt time.Time, err error) {
	if err := pki.EnsureServiceAccountKeys(f.layout.pkiPath("sa.key"), f.layout.pkiPath("sa.pub")); err != nil {
		return time.Time{}, err
	}
	if f.external == "" {
		return f.layout.ensureIdentities(cluster, options)
	}
	return time.Time{}, f.checkFiles(cluster, options)
}

// checkFiles looks for the certificates that another program makes.
func (f identityFiles) checkFiles(cluster state, options Options) error {
	if _, err := pki.LoadAuthority(f.caPaths()); err != nil {
		return fmt.Errorf("%w: --pki-dir: %w", ErrInvalid, err)
	}
	users := []string{admin}
	needed := []string{kubeletClient}
	for _, component := range options.Components {
		switch component {
		case ControllerManager, Scheduler:
			users = append(users, component)
		case Podhost:
			users = append(users, component)
		case APIServer:
			needed = append(needed, component)
		}
	}
	for _, name := range append(needed, users...) {
		certificate, key := f.external.pairPaths(name)
		for _, file := range []string{certificate, key} {
			if _, err := os.Stat(file); err != nil {
				return fmt.Errorf("%w: --pki-dir: %w", ErrInvalid, err)
			}
		}
	}
	return f.writeKubeconfigs(cluster, users)
}

// writeKubeconfigs writes one kubeconfig for each user, which names the files of the
// external PKI: a client reads them again when they are renewed.
func (f identityFiles) writeKubeconfigs(cluster state, users []string) error {
	ca, _ := f.caPaths()
	for _, user := range users {
		certificate, key := f.external.pairPaths(user)
		content, err := writeKubeconfig(cluster.Name, user,
			&clientcmdapi.Cluster{Server: cluster.serverURL(), CertificateAuthority: ca},
			&clientcmdapi.AuthInfo{ClientCertificate: certificate, ClientKey: key})
		if err != nil {
			return err
		}
		if err := updateFile(f.layout.kubeconfigPath(user), content); err != nil {
			return fmt.Errorf("writing kubeconfig of %s: %w", user, err)
		}
	}
	return nil
}
