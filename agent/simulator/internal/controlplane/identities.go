package controlplane

import (
	"fmt"
	"net/netip"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/pki"
)

const (
	// certificateLifetime is how long a component's certificate is valid. A new
	// one is made when less than renewBefore is left of it, at a start or while
	// the cluster runs.
	certificateLifetime = 365 * 24 * time.Hour
	renewBefore         = certificateLifetime / 3

	// kubeletClient is who the API server is when it talks to kubelets.
	kubeletClient = "kube-apiserver-kubelet-client"
	// frontProxyCA signs frontProxyClient, who the API server is when it passes requests on to the servers of APIServices. It is an
	// authority of its own: the holder of a certificate of it may name any user.
	frontProxyCA     = "front-proxy-ca"
	frontProxyClient = "front-proxy-client"
	// admin is the user of the admin kubeconfig.
	admin        = "admin"
	nodesGroup   = "system:nodes"
	mastersGroup = "system:masters"
)

// serviceIP is the first address of the service range, which Kubernetes gives
// to the API server's own Service.
var serviceIP = netip.MustParseAddr("172.30.0.1")

// ensureIdentities makes the authority, all certificates and the kubeconfigs
// that are missing, are about to end or say something else than this start
// needs. It returns when the first of the certificates is to be renewed.
func (l Layout) ensureIdentities(cluster state, options Options) (time.Time, error) {
	now := time.Now()
	authority, err := pki.LoadOrCreateAuthority(l.CAFile(), l.caKey(), cluster.Name+"-ca", now)
	if err != nil {
		return time.Time{}, err
	}
	i := &issuance{layout: l, cluster: cluster, authority: authority, now: now, renewAt: now.Add(certificateLifetime - renewBefore)}
	local := []string{"127.0.0.1", "localhost"}
	serving := []string{cluster.serverAddress(), serviceIP.String(), "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	if cluster.serverAddress() == local[0] {
		serving = serving[1:]
	}
	serving = append(serving, options.ServingNames...)
	for name, request := range map[string]pki.Request{
		APIServer:         {CommonName: APIServer, Hosts: append(serving, local...)},
		ControllerManager: {CommonName: ControllerManager, Hosts: local},
		Scheduler:         {CommonName: Scheduler, Hosts: local},
		kubeletClient:     {CommonName: kubeletClient},
	} {
		if _, err := i.issuePair(l.pkiPath(name), request); err != nil {
			return time.Time{}, err
		}
	}
	if options.Aggregation {
		if err := i.issueFrontProxy(); err != nil {
			return time.Time{}, err
		}
	}
	return i.renewAt, i.writeKubeconfigs(options)
}

// issueFrontProxy makes the front proxy's authority and certificate.
func (i *issuance) issueFrontProxy() error {
	authority, err := pki.LoadOrCreateAuthority(i.layout.pkiPath(frontProxyCA+".crt"), i.layout.pkiPath(frontProxyCA+".key"), frontProxyCA, i.now)
	if err != nil {
		return err
	}
	front := &issuance{layout: i.layout, authority: authority, now: i.now, renewAt: i.renewAt}
	_, err = front.issuePair(i.layout.pkiPath(frontProxyClient), pki.Request{CommonName: frontProxyClient})
	i.renewAt = front.renewAt
	return err
}

// issuance makes certificates of one authority at one time.
type issuance struct {
	layout    Layout
	cluster   state
	authority *pki.Authority
	now       time.Time
	// renewAt is when the first of the certificates is to be renewed.
	renewAt time.Time
}

// issuePair makes the files base.crt and base.key hold a certificate as requested.
func (i *issuance) issuePair(base string, request pki.Request) (*pki.Pair, error) {
	request.Lifetime = certificateLifetime
	pair, err := i.authority.EnsurePair(base+".crt", base+".key", request, renewBefore, i.now)
	if err != nil {
		return nil, err
	}
	if renewAt := pair.Certificate.NotAfter.Add(-renewBefore); renewAt.Before(i.renewAt) {
		i.renewAt = renewAt
	}
	return pair, nil
}

// writeKubeconfigs writes one kubeconfig for each identity. That of the administrator
// holds the certificate itself, so that it can be copied anywhere. The others name
// the files: a client reads them again when they are renewed.
func (i *issuance) writeKubeconfigs(options Options) error {
	request := pki.Request{CommonName: admin, Groups: []string{mastersGroup}}
	pair, err := i.issuePair(i.layout.clientPair(admin), request)
	if err != nil {
		return err
	}
	content, err := renderKubeconfig(i.cluster.Name, i.cluster.serverURL(), request.CommonName, i.authority, pair)
	if err != nil {
		return err
	}
	if err := updateFile(i.layout.AdminKubeconfig(), content); err != nil {
		return fmt.Errorf("writing kubeconfig of %s: %w", admin, err)
	}
	users := map[string]pki.Request{
		ControllerManager: {CommonName: "system:kube-controller-manager"},
		Scheduler:         {CommonName: "system:kube-scheduler"},
	}
	if options.PodhostNode != "" {
		users[Podhost] = pki.Request{CommonName: "system:node:" + options.PodhostNode, Groups: []string{nodesGroup}}
	}
	for name, request := range users {
		if err := i.writeFollowed(i.layout.kubeconfigPath(name), i.layout.clientPair(name), request); err != nil {
			return err
		}
	}
	for _, client := range options.Clients {
		if err := i.writeFollowed(client.Path, client.Path, pki.Request{CommonName: client.User, Groups: client.Groups}); err != nil {
			return err
		}
	}
	return nil
}

// writeFollowed writes a kubeconfig that names the files base.crt and base.key.
func (i *issuance) writeFollowed(path, base string, request pki.Request) error {
	if _, err := i.issuePair(base, request); err != nil {
		return err
	}
	content, err := writeKubeconfig(i.cluster.Name, request.CommonName,
		&clientcmdapi.Cluster{Server: i.cluster.serverURL(), CertificateAuthorityData: i.authority.CertificatePEM},
		&clientcmdapi.AuthInfo{ClientCertificate: base + ".crt", ClientKey: base + ".key"})
	if err != nil {
		return err
	}
	if err := updateFile(path, content); err != nil {
		return fmt.Errorf("writing kubeconfig of %s: %w", request.CommonName, err)
	}
	return nil
}
