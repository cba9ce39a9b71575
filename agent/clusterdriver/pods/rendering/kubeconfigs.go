package rendering

import (
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// newKubeconfigs are those of the agent. They name files, which are read again when they change.
func (s Settings) newKubeconfigs(c Cluster) (map[string]string, error) {
	host, err := writeKubeconfig("host",
		clientcmdapi.Cluster{Server: "https://kubernetes.default.svc", CertificateAuthority: path.Join(tokenDir, "ca.crt")},
		clientcmdapi.AuthInfo{TokenFile: path.Join(tokenDir, "token")})
	if err != nil {
		return nil, err
	}
	target, err := writeKubeconfig("target",
		clientcmdapi.Cluster{Server: fmt.Sprintf("https://127.0.0.1:%d", APIServerPort), CertificateAuthority: path.Join(agentDir, "ca.crt")},
		clientcmdapi.AuthInfo{ClientCertificate: path.Join(agentDir, corev1.TLSCertKey), ClientKey: path.Join(agentDir, corev1.TLSPrivateKeyKey)})
	if err != nil {
		return nil, err
	}
	return map[string]string{"host": host, "target": target, "hub": string(c.HubKubeconfig)}, nil
}

func writeKubeconfig(name string, cluster clientcmdapi.Cluster, user clientcmdapi.AuthInfo) (string, error) {
	const agent = "agent"
	config := clientcmdapi.NewConfig()
	config.Clusters[name], config.AuthInfos[agent] = &cluster, &user
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: agent}
	config.CurrentContext = name
	content, err := clientcmd.Write(*config)
	if err != nil {
		return "", fmt.Errorf("writing the kubeconfig for %s: %w", name, err)
	}
	return string(content), nil
}
