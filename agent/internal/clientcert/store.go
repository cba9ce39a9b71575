package clientcert

import "context"

// Names of the files, or of the keys of the Secret, of a Store.
const (
	privateKeyKey  = "tls.key"
	certificateKey = "tls.crt"
	tokenKey       = "token"
	kubeconfigKey  = "kubeconfig"
	// pendingKey is the key of a certificate request that is not answered yet. A restart goes on with it.
	pendingKey = "pending.key"
)

// names is the order in which files are written: at whatever moment a process dies, the certificate that is there
// matches one of the keys that are there.
var names = []string{pendingKey, certificateKey, privateKeyKey, tokenKey, kubeconfigKey}

// Contents are what a Store holds, by name. A missing one is empty.
type Contents map[string][]byte

// Store keeps the agent's credential.
type Store interface {
	// Load returns what is stored; nothing if nothing is.
	Load(ctx context.Context) (Contents, error)
	// Save makes the store hold exactly contents.
	Save(ctx context.Context, contents Contents) error
	// String names the store in messages.
	String() string
}

// credential reads the credential of a cluster's agent; found is false if there is none at all.
func (c Contents) credential(cluster string) (read Credential, found bool, err error) {
	switch {
	case len(c[certificateKey]) > 0:
		read, err = fromCertificate(cluster, c[certificateKey], c[privateKeyKey])
		if err != nil && len(c[pendingKey]) > 0 {
			// The process died between writing the new certificate and moving its key.
			if other, pendingErr := fromCertificate(cluster, c[certificateKey], c[pendingKey]); pendingErr == nil {
				return other, true, nil
			}
		}
		return read, true, err
	case len(c[tokenKey]) > 0:
		read, err = fromToken(cluster, string(c[tokenKey]))
		return read, true, err
	}
	return Credential{}, false, nil
}
