package controlplane

import (
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func TestClientsAskForNothingCompressed(t *testing.T) {
	content, err := writeKubeconfig("c1", "admin", &clientcmdapi.Cluster{Server: "https://127.0.0.1"}, &clientcmdapi.AuthInfo{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil || !config.DisableCompression {
		t.Errorf("the client of %s: %v, %v", content, config, err)
	}
}
