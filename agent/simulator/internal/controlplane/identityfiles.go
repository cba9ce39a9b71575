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

// pair is where a certificate and its key are.
func (e externalPKI) pair(name string) (certificate, key string) {
	return filepath.Join(string(e), name, "tls.crt"), filepath.Join(string(e), name, "tls.key")
}

// identityFiles are where the cluster's certificates are: in the data directory, where
// this program makes them, or in an external PKI if there is one.
type identityFiles struct {
	layout   Layout
	external externalPKI
}

func (f identityFiles) ca() (certificate, key string) {
	if f.external != "" {
		return f.external.pair(externalCA)
	}
	return f.layout.CAFile(), f.layout.caKey()
}

// serving is the certificate of a component's own port, and the one that the API
// server shows to kubelets.
func (f identityFiles) serving(name string) (certificate, key string) {
	if f.external != "" {
		return f.external.pair(name)
	}
	return f.layout.pki(name + ".crt"), f.layout.pki(name + ".key")
}

// client is the certificate of a user.
func (f identityFiles) client(user string) (certificate, key string) {
	if f.external != "" {
		return f.external.pair(user)
	}
	return f.layout.clientPair(user) + ".crt", f.layout.clientPair(user) + ".key"
}

// ensure makes what is missing, and returns when it is to be called again to renew it. If another program makes the
// certificates, it checks that they are there, and there is nothing to renew.
func (f identityFiles) ensure(cluster state, options Options) (renewAt time.Time, err error) {
	if err := pki.EnsureServiceAccountKeys(f.layout.pki("sa.key"), f.layout.pki("sa.pub")); err != nil {
		return time.Time{}, err
	}
	if f.external == "" {
		return f.layout.ensureIdentities(cluster, options)
	}
	return time.Time{}, f.check(cluster, options)
}

// check looks for the certificates that another program makes.
func (f identityFiles) check(cluster state, options Options) error {
	if _, err := pki.LoadAuthority(f.ca()); err != nil {
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
		certificate, key := f.external.pair(name)
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
	ca, _ := f.ca()
	for _, user := range users {
		certificate, key := f.external.pair(user)
		content, err := writeKubeconfig(cluster.Name, user,
			&clientcmdapi.Cluster{Server: cluster.server(), CertificateAuthority: ca},
			&clientcmdapi.AuthInfo{ClientCertificate: certificate, ClientKey: key})
		if err != nil {
			return err
		}
		if err := updateFile(f.layout.kubeconfig(user), content); err != nil {
			return fmt.Errorf("writing kubeconfig of %s: %w", user, err)
		}
	}
	return nil
}
