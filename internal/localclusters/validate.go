package localclusters

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"regexp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/joining"
)

var (
	uidPattern     = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
	versionPattern = regexp.MustCompile(`^v[0-9]{1,3}\.[0-9]{1,3}(\.[0-9]{1,3})?$`)
)

// Validate returns a Problem for a cluster of that name which cannot be right.
func (d Desired) Validate(name string, now time.Time) error {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return invalidError("name", "%q is not a name of a cluster: %s", name, problems[0])
	}
	if !uidPattern.MatchString(d.UID) {
		return invalidError("uid", "%q is not a UID: send metadata.uid of the SimulatedCluster", d.UID)
	}
	if d.ControlPlaneVersion != "" && !versionPattern.MatchString(d.ControlPlaneVersion) {
		return invalidError("controlPlaneVersion", "%q is not a Kubernetes version: write it as v1.36", d.ControlPlaneVersion)
	}
	if err := d.Resources.validateQuantities(); err != nil {
		return err
	}
	if err := joining.CheckURL(d.Hub.Server); err != nil {
		return invalidError("hub.server", "%v", err)
	}
	if len(d.Hub.CA) > 0 && !x509.NewCertPool().AppendCertsFromPEM(d.Hub.CA) {
		return invalidError("hub.ca", "no certificate is in it: send the PEM encoded certificates of the hub's authority")
	}
	if len(d.Certificate) == 0 && len(d.Key) == 0 {
		return nil
	}
	leaf, err := ParseCredential(name, d.Certificate, d.Key)
	if err != nil {
		return invalidError("certificate", "%v", err)
	}
	if !leaf.NotAfter.After(now) {
		return invalidError("certificate", "it has expired on %s: request another one", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// ParseCredential returns the certificate of the agent of a cluster. It fails for one of somebody else, and for another key's.
func ParseCredential(cluster string, certificate, key []byte) (*x509.Certificate, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("reading certificate and key: %w", err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("reading the certificate: %w", err)
	}
	user, group := v1alpha1.AgentUserPrefix+cluster, v1alpha1.AgentGroupPrefix+cluster
	if leaf.Subject.CommonName != user || !slices.Contains(leaf.Subject.Organization, group) {
		return nil, fmt.Errorf("the certificate is for user %q of groups %q: want user %q of group %q", leaf.Subject.CommonName, leaf.Subject.Organization, user, group)
	}
	return leaf, nil
}
