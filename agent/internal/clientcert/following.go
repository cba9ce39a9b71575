package clientcert

import clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

// readBootstrap follows the bootstrap kubeconfig.
func (k *Manager) readBootstrap() {
	read, err := readBootstrap(k.Bootstrap, k.Cluster)
	if read.token != k.bootstrap.token {
		k.failures = 0
	}
	k.bootstrap, k.problem = read, err
	if read.cluster != nil && !sameServer(read.cluster, k.server) {
		k.moved(read.cluster)
	}
}

func sameServer(a, b *clientcmdapi.Cluster) bool {
	return b != nil && a.Server == b.Server && a.TLSServerName == b.TLSServerName && a.ProxyURL == b.ProxyURL &&
		a.InsecureSkipTLSVerify == b.InsecureSkipTLSVerify && string(a.CertificateAuthorityData) == string(b.CertificateAuthorityData)
}

// moved takes in another address or authority of the hub.
func (k *Manager) moved(to *clientcmdapi.Cluster) {
	known := k.server != nil
	k.server = to
	k.servers++
	if k.present == nil {
		return
	}
	if known {
		k.Log.Info("Following the bootstrap kubeconfig to another server or certificate authority", "server", to.Server)
	}
	k.publish(*k.present)
	k.unsaved = true
}
