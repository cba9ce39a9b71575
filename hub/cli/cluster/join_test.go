package cluster

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/joining"
)

func FuzzClusterName(f *testing.F) {
	for _, name := range []string{"c1", "", "UPPER", "a.b", "kube-x", "-a", "a-", "hollowfleet", "ä", "a\n", strings.Repeat("a", 64)} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		err := joining.CheckName(name)
		if err == nil && len(validation.ValidateNamespaceName(name, false)) > 0 {
			t.Errorf("%q is not a name of a namespace, and is taken", name)
		}
		if err != nil && !strings.Contains(err.Error(), "cluster name") {
			t.Errorf("%q: the error does not say what it is about: %v", name, err)
		}
	})
}

func FuzzAgentServer(f *testing.F) {
	for _, url := range []string{"https://hub.example.com:6443", "http://hub", "https://", "https://[::1", "https://a b", "//x", "https://h/%zz", "https://\xff", "https://h\u2028x/\u0085", "\x00"} {
		f.Add(url)
	}
	config := &rest.Config{Host: "https://127.0.0.1:6443"}
	f.Fuzz(func(t *testing.T, url string) {
		server, err := serverFlags{url: url}.serverOf(config)
		if err != nil {
			if cmdutil.Code(err) != cmdutil.BadUsage {
				t.Errorf("%q: exit code %d: %v", url, cmdutil.Code(err), err)
			}
			return
		}
		content, err := server.Kubeconfig("c1", "token")
		if err != nil {
			t.Fatalf("%q is taken, and makes no kubeconfig: %v", url, err)
		}
		loaded, err := clientcmd.Load(content)
		if err != nil {
			t.Fatalf("%q is taken, and its kubeconfig cannot be read: %v", url, err)
		}
		if got := loaded.Clusters["hub"].Server; got != server.URL {
			t.Errorf("%q becomes %q in the kubeconfig", server.URL, got)
		}
	})
}
