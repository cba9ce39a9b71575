package hollownode

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/certificate"
)

// servingPrefix names the files of the serving certificate as a kubelet does.
const servingPrefix = "kubelet-server"

// requestServing returns what asks for the node's serving certificate and renews it, as a kubelet with serverTLSBootstrap does. That of a
// kubelet registers metrics, of which there may be one of each in a process, and looks every second whether its Node's addresses have
// changed; a hollow node keeps its own until it starts again.
func (n *node) requestServing() (certificate.Manager, error) {
	directory := certificateDir(n.options.StateDir)
	store, err := certificate.NewFileStore(servingPrefix, directory, directory, "", "")
	if err != nil {
		return nil, fmt.Errorf("opening the store of the serving certificate: %w", err)
	}
	manager, err := certificate.NewManager(&certificate.Config{
		ClientsetFn: func(*tls.Certificate) (clientset.Interface, error) { return n.client, nil },
		Template: &x509.CertificateRequest{
			Subject:     pkix.Name{CommonName: "system:node:" + n.configuration.NodeName, Organization: []string{"system:nodes"}},
			DNSNames:    []string{n.configuration.NodeName},
			IPAddresses: n.servingAddresses(),
		},
		SignerName:       certificatesv1.KubeletServingSignerName,
		GetUsages:        certificate.DefaultKubeletServingGetUsages,
		CertificateStore: store,
	})
	if err != nil {
		return nil, fmt.Errorf("preparing the requests for the serving certificate: %w", err)
	}
	return manager, nil
}

// servingAddresses are those of the Node.
func (n *node) servingAddresses() []net.IP {
	addresses := []net.IP{n.internalAddress()}
	if bind, has := n.bindAddress(); has && !slices.ContainsFunc(addresses, net.IP(bind.AsSlice()).Equal) {
		addresses = append(addresses, bind.AsSlice())
	}
	return addresses
}
