package controlplane

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/pki"
)

const (
	// certificateLifetime is how long a component's certificate is valid. A
	// start makes a new one when less than renewBefore is left of it.
	certificateLifetime = 365 * 24 * time.Hour
	renewBefore         = 60 * 24 * time.Hour

	// kubeletClient is who the API server is when it talks to kubelets.
	kubeletClient = "kube-apiserver-kubelet-client"
	// admin is the user of the admin kubeconfig.
	admin        = "admin"
	nodesGroup   = "system:nodes"
	mastersGroup = "system:masters"
)

// serviceIP is the first address of the service range, which Kubernetes gives
// to the API server's own Service.
var serviceIP = netip.MustParseAddr("172.30.0.1")

// ensureIdentities makes the authority, all certificates and the kubeconfigs
// that are missing or say something else than this start needs.
func (l Layout) ensureIdentities(cluster state, options Options) error {
	now := time.Now()
	authority, err := pki.LoadOrCreateAuthority(l.CAFile(), l.caKey(), cluster.Name+"-ca", now)
	if err != nil {
		return err
	}
	local := []string{"127.0.0.1", "localhost"}
	serving := []string{cluster.host(), serviceIP.String(), "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	if cluster.host() == local[0] {
		serving = serving[1:]
	}
	serving = append(serving, options.ServingNames...)
	pairs := map[string]pki.Request{
		APIServer:         {CommonName: APIServer, Hosts: append(serving, local...)},
		ControllerManager: {CommonName: ControllerManager, Hosts: local},
		Scheduler:         {CommonName: Scheduler, Hosts: local},
		kubeletClient:     {CommonName: kubeletClient},
	}
	for name, request := range pairs {
		request.Lifetime = certificateLifetime
		if _, err := authority.EnsurePair(l.pki(name+".crt"), l.pki(name+".key"), request, renewBefore, now); err != nil {
			return err
		}
	}
	return l.ensureKubeconfigs(authority, cluster, options.PodhostNode, now)
}

// ensureKubeconfigs writes one kubeconfig for each identity.
func (l Layout) ensureKubeconfigs(authority *pki.Authority, cluster state, podhostNode string, now time.Time) error {
	users := map[string]pki.Request{
		admin:             {CommonName: admin, Groups: []string{mastersGroup}},
		ControllerManager: {CommonName: "system:kube-controller-manager"},
		Scheduler:         {CommonName: "system:kube-scheduler"},
	}
	if podhostNode != "" {
		users[Podhost] = pki.Request{CommonName: "system:node:" + podhostNode, Groups: []string{nodesGroup}}
	}
	for name, request := range users {
		request.Lifetime = certificateLifetime
		pair, err := authority.EnsurePair(l.pki(name+"-client.crt"), l.pki(name+"-client.key"), request, renewBefore, now)
		if err != nil {
			return err
		}
		content, err := renderKubeconfig(cluster.Name, cluster.server(), request.CommonName, authority, pair)
		if err != nil {
			return err
		}
		if err := updateFile(l.kubeconfig(name), content); err != nil {
			return fmt.Errorf("writing kubeconfig of %s: %w", name, err)
		}
	}
	return nil
}
