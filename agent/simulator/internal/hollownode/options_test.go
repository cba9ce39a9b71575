package hollownode

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/fakecri"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/kubeletversion"
	"github.com/hollowfleet/hollowfleet/agent/simulator/minor"
)

const bootstrapKubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: abcdef.0123456789abcdef}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

func testConfiguration() contract.Configuration {
	return contract.Configuration{
		NodeName:   "n1",
		ProviderID: "hollow://c1/n1",
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("3500m"), corev1.ResourceMemory: resource.MustParse("8Gi"),
		},
		MaxPods: 20,
	}
}

// testOptions writes a configuration directory and returns options that are fine.
func testOptions(t *testing.T, configuration contract.Configuration) Options {
	t.Helper()
	data, err := contract.Marshal(configuration)
	if err != nil {
		t.Fatal(err)
	}
	options := Options{ConfigDir: t.TempDir(), StateDir: t.TempDir(), BindAddress: "127.0.0.1"}
	write(t, filepath.Join(options.ConfigDir, contract.ConfigFileName), string(data))
	write(t, options.bootstrapKubeconfig(), bootstrapKubeconfig)
	return options
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestBadConfigurationsAreNamed(t *testing.T) {
	if _, err := testOptions(t, testConfiguration()).loadConfiguration(); err != nil {
		t.Fatalf("a good configuration is refused: %v", err)
	}
	for name, test := range map[string]struct {
		configuration func(*contract.Configuration)
		options       func(*testing.T, *Options)
		want          string
	}{
		"no config dir":      {options: func(_ *testing.T, o *Options) { o.ConfigDir = "" }, want: "configuration directory"},
		"no state dir":       {options: func(_ *testing.T, o *Options) { o.StateDir = "" }, want: "state directory"},
		"bind address":       {options: func(_ *testing.T, o *Options) { o.BindAddress = "here" }, want: `bind address: want an IP address, got "here"`},
		"no config":          {options: func(_ *testing.T, o *Options) { o.ConfigDir = filepath.Join(o.ConfigDir, "x") }, want: "config.json"},
		"unknown field":      {options: writing(contract.ConfigFileName, `{"nodeNam":"x"}`), want: "nodeNam"},
		"no kubeconfig":      {options: func(_ *testing.T, o *Options) { _ = os.Remove(o.bootstrapKubeconfig()) }, want: contract.BootstrapKubeconfigFileName},
		"broken kubeconfig":  {options: writing(contract.BootstrapKubeconfigFileName, "{"), want: "bootstrap kubeconfig"},
		"empty kubeconfig":   {options: writing(contract.BootstrapKubeconfigFileName, "apiVersion: v1\nkind: Config\n"), want: contract.BootstrapKubeconfigFileName},
		"kubelet version":    {configuration: func(c *contract.Configuration) { c.KubeletVersion = "1.29" }, want: "kubeletVersion"},
		"runtime version":    {configuration: func(c *contract.Configuration) { c.ContainerRuntimeVersion = "new" }, want: "containerRuntimeVersion"},
		"pods in capacity":   {configuration: func(c *contract.Configuration) { c.Capacity[corev1.ResourcePods] = resource.MustParse("5") }, want: "capacity.pods"},
		"label with a space": {configuration: func(c *contract.Configuration) { c.Labels = map[string]string{"a": "b c"} }, want: "labels"},
		"taint":              {configuration: func(c *contract.Configuration) { c.Taints = []corev1.Taint{{Key: "k", Effect: "Never"}} }, want: "taints"},
		"node name":          {configuration: func(c *contract.Configuration) { c.NodeName = "N_1" }, want: "nodeName"},
	} {
		t.Run(name, func(t *testing.T) {
			configuration := testConfiguration()
			if test.configuration != nil {
				test.configuration(&configuration)
			}
			options := testOptions(t, configuration)
			if test.options != nil {
				test.options(t, &options)
			}
			_, err := options.loadConfiguration()
			if !errors.Is(err, ErrConfiguration) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("want a configuration error with %q, got %v", test.want, err)
			}
		})
	}
}

func writing(file, content string) func(*testing.T, *Options) {
	return func(t *testing.T, o *Options) { write(t, filepath.Join(o.ConfigDir, file), content) }
}

// Claim: A label marks reported versions. Broken: always BuiltIn; the minor alone decides; no label has the code's version.
func TestNodeLabelsTellWhereTheVersionComesFrom(t *testing.T) {
	for version, want := range map[string]string{
		"": versionBuiltIn, kubeletversion.BuiltIn(): versionBuiltIn, "v1.29.4": versionReported, "v" + minor.Kubernetes + ".99": versionSameMinor,
	} {
		configuration := testConfiguration()
		configuration.KubeletVersion = version
		configuration.Labels = map[string]string{"a": "b"}
		labels := nodeLabels(configuration)
		if labels[versionSourceLabel] != want || labels[hollowLabel] != "true" || labels["a"] != "b" {
			t.Errorf("version %q: want source %s, got labels %v", version, want, labels)
		}
		if labels[codeLabel] != kubeletversion.BuiltIn() {
			t.Errorf("version %q: want the code %s, got labels %v", version, kubeletversion.BuiltIn(), labels)
		}
		if len(configuration.Labels) != 1 {
			t.Errorf("the configuration's own labels were changed: %v", configuration.Labels)
		}
	}
}

// Claim: A Node whose kubelet was updated in place says which code it runs now. Broken: the labels are those of the registration.
func TestANodeThatExistsSaysItsCode(t *testing.T) {
	n := &node{configuration: testConfiguration()}
	n.configuration.KubeletVersion = "v1.29.4"
	for _, before := range []map[string]string{nil, {codeLabel: "v1.29.1", versionSourceLabel: versionSameMinor, "a": "b"}} {
		found := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: before}}
		if err := n.setVersion(t.Context(), found); err != nil {
			t.Fatal(err)
		}
		if found.Labels[codeLabel] != kubeletversion.BuiltIn() || found.Labels[versionSourceLabel] != versionReported || found.Status.NodeInfo.KubeletVersion != "v1.29.4" {
			t.Errorf("a Node with the labels %v has %v and reports %s", before, found.Labels, found.Status.NodeInfo.KubeletVersion)
		}
	}
}

// Claim: No program runs as a version whose code it has not, where code is demanded. Broken: not checked; another patch refused.
func TestCodeThatIsDemanded(t *testing.T) {
	for version, refused := range map[string]bool{"": false, "v" + minor.Kubernetes + ".99": false, "v1.29.4": true} {
		configuration := testConfiguration()
		configuration.KubeletVersion = version
		if err := checkConfiguration(configuration); err != nil {
			t.Errorf("version %q without a demand: %v", version, err)
		}
		configuration.RequireVersionCode = true
		err := checkConfiguration(configuration)
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "kubeletVersion: v1.29.4 has to be the code that runs") {
			t.Errorf("version %q demanded as code: %v", version, err)
		}
	}
}

// TestNamesAreThoseOfTheAPI compares with the text of the API's constants, because importing their package
// would pull its dependencies into this module.
func TestNamesAreThoseOfTheAPI(t *testing.T) {
	text, err := os.ReadFile("../../../../apis/v1alpha1/names.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		hollowLabel, versionSourceLabel, codeLabel, leaseLabel, frequencyLabel, versionBuiltIn, versionSameMinor, versionReported,
		fakecri.ExitAfterAnnotation, fakecri.ExitCodeAnnotation, fakecri.StartedAfterAnnotation, fakecri.ReadyAfterAnnotation,
		fakecri.ReadinessFailsAfterAnnotation, fakecri.LivenessFailsAfterAnnotation, fakecri.TerminatesAfterAnnotation,
		fakecri.ImagePullFailsAnnotation, fakecri.LogAnnotation, fakecri.CPUUsageAnnotation, fakecri.MemoryUsageAnnotation,
	} {
		if !strings.Contains(string(text), `"`+name+`"`) {
			t.Errorf("apis/v1alpha1 has no constant %q", name)
		}
	}
}
