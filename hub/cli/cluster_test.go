package cli_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

func (f *env) tokens() []corev1.Secret {
	f.T.Helper()
	secrets := &corev1.SecretList{}
	f.Expect(f.Client.List(f.T.Context(), secrets, client.InNamespace("kube-system"),
		client.MatchingLabels{v1alpha1.ClusterNameLabel: f.name})).To(Succeed())
	return secrets.Items
}

// report plays the hub: it sets a condition of the cluster.
func (f *env) report(kind string, status metav1.ConditionStatus, reason string) {
	f.T.Helper()
	cluster := f.cluster()
	cluster.Status.Conditions = []metav1.Condition{{
		Type: kind, Status: status, Reason: reason, Message: "as the hub says", ObservedGeneration: cluster.Generation, LastTransitionTime: metav1.Now(),
	}}
	f.ExpectStatusApplied(cluster)
}

// Edge case: A printed step hit the hub.
func TestJoinWritesAKubeconfigForTheAgentAlone(t *testing.T) {
	f := newEnv(t)
	dir := filepath.Join(t.TempDir(), "new")
	out := f.succeeds("cluster join NAME --labels stage=test --output-dir", dir)
	f.Expect(out).To(ContainSubstring("cluster.hollowfleet.io/" + f.name + " created"))
	f.Expect(out).To(ContainSubstring("agent --cluster-name " + f.name))
	f.Expect(out).To(ContainSubstring("kubectl --kubeconfig WORKLOAD-KUBECONFIG apply -f config/rbac/agent-workload"))
	f.Expect(out).To(ContainSubstring("kubectl hollow cluster accept " + f.name))
	f.Expect(out).To(ContainSubstring("--agent-server"), "the hub is on loopback")
	f.Expect(out).NotTo(ContainSubstring("helm"), "which no pod reaches")
	path := filepath.Join(dir, f.name+".bootstrap.kubeconfig")
	entries, err := os.ReadDir(dir)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(entries).To(HaveLen(1))
	info, err := entries[0].Info()
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)))
	config, err := clientcmd.BuildConfigFromFlags("", path)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(config.Host).To(Equal(testenv.Server().Config.Host))
	f.Expect(f.tokens()).To(HaveLen(1))
	f.Expect(config.BearerToken).To(HavePrefix(string(f.tokens()[0].Data["token-id"]) + "."))
	f.Expect(f.cluster().Labels).To(HaveKeyWithValue("stage", "test"))
}

// Edge case: The agent's command was unquoted.
func TestJoinPrintsACommandThatAShellReads(t *testing.T) {
	for name, dir := range map[string]string{
		"a plain path": "plain", "a space": "sp ace", "quotes": `it's "so"`, "a variable": "$HOME", "a command": "`id`;x", "a pattern": "*",
	} {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t)
			into := filepath.Join(t.TempDir(), dir)
			out := f.succeeds("cluster join NAME --output-dir", into)
			_, command, found := strings.Cut(out, "\n     agent ")
			f.Expect(found).To(BeTrue(), out)
			command, _, _ = strings.Cut(command, "\n\n")
			command = strings.ReplaceAll(command, "WORKLOAD-KUBECONFIG", "workload")
			words, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "printf '%s\\n' "+command).Output()
			f.Expect(err).NotTo(HaveOccurred(), command)
			f.Expect(strings.Split(strings.TrimSpace(string(words)), "\n")).To(Equal([]string{
				"--cluster-name", f.name, "--bootstrap-kubeconfig", filepath.Join(into, f.name+".bootstrap.kubeconfig"),
				"--credential-dir", "/var/lib/hollowfleet/" + f.name, "--target-kubeconfig", "workload",
			}))
		})
	}
}

// helm reads commas and backslashes of its own accord, after the shell.
func TestJoinPrintsAHelmCommandThatAShellReads(t *testing.T) {
	for name, dir := range map[string]struct{ is, want string }{
		"a plain path": {"plain", "plain"}, "a space": {"sp ace", "sp ace"}, "a quote": {"it's", "it's"},
		"a comma": {"a,b", `a\,b`}, "a backslash": {`a\b`, `a\\b`},
	} {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t)
			base := t.TempDir()
			out := f.succeeds("cluster join NAME --agent-server https://hub.example.com:6443 --output-dir", filepath.Join(base, dir.is))
			_, command, found := strings.Cut(out, "\n     helm ")
			f.Expect(found).To(BeTrue(), out)
			command, _, _ = strings.Cut(command, "\n\n")
			words, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "printf '%s\\n' "+command).Output()
			f.Expect(err).NotTo(HaveOccurred(), command)
			f.Expect(strings.Split(strings.TrimSpace(string(words)), "\n")).To(Equal([]string{
				"--kubeconfig", "WORKLOAD-KUBECONFIG", "install", "agent", "bin/charts/agent.tgz", "--namespace", "hollowfleet", "--create-namespace",
				"--set", "clusterName=" + f.name, "--set-file",
				"hub.bootstrapKubeconfig=" + filepath.Join(base, dir.want, f.name+".bootstrap.kubeconfig"),
			}))
		})
	}
}

func TestJoinTellsMoreWhenWide(t *testing.T) {
	f := newEnv(t)
	r := f.hollow("cluster join NAME --accept=now -o wide")
	f.Expect(r.code).To(Equal(0), r.errOut)
	f.Expect(f.tokens()).To(HaveLen(1))
	token := f.tokens()[0]
	certificates, err := cert.ParseCertsPEM(testenv.Server().Config.CAData)
	f.Expect(err).NotTo(HaveOccurred())
	sum := sha256.Sum256(certificates[0].Raw)
	f.Expect(r.out).To(And(
		ContainSubstring("What is left to do"), ContainSubstring("current-context: hub"),
		ContainSubstring("\n  Token's Secret:  kube-system/"+token.Name+"\n"),
		ContainSubstring("\n  Token's expiry:  "+string(token.Data["expiration"])+"\n"),
		ContainSubstring("\n  Hub:             "+testenv.Server().Config.Host+"\n"),
		MatchRegexp(`\n  Hub's CA: +sha256 `+strings.ToUpper(hex.EncodeToString(sum[:1]))+`(:[0-9A-F]{2}){31}\n`),
		ContainSubstring("\n  Acceptance:      Accepted\n"), Not(ContainSubstring("Joined")),
		Not(ContainSubstring("ServiceAccount")), Not(ContainSubstring("in TLS"))))
	f.Expect(f.succeeds("cluster join NAME")).NotTo(ContainSubstring("Token's Secret"))
	f.fails(2, "--dry-run", "cluster join NAME --dry-run -o wide")
	f.fails(2, "kubeconfig, kyaml, name, template, templatefile, wide, yaml\n",
		"cluster join NAME --output-dir /tmp/none-x -o xml")
}

func TestJoinPrintsAKubeconfigForAnotherAddress(t *testing.T) {
	f := newEnv(t)
	r := f.hollow("cluster join NAME --accept=now -o kubeconfig --agent-server https://hub.example.com:6443")
	f.Expect(r.code).To(Equal(0), r.errOut)
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(r.out))
	f.Expect(err).NotTo(HaveOccurred(), "standard output is the kubeconfig alone")
	f.Expect(config.Host).To(Equal("https://hub.example.com:6443"))
	f.Expect(r.errOut).To(ContainSubstring("What is left to do"))
	f.Expect(r.errOut).To(ContainSubstring(`
     helm --kubeconfig WORKLOAD-KUBECONFIG install agent bin/charts/agent.tgz --namespace hollowfleet --create-namespace \
       --set clusterName=` + f.name + ` --set-file hub.bootstrapKubeconfig=` + f.name + ".bootstrap.kubeconfig\n"))
	f.Expect(r.errOut).NotTo(ContainSubstring("cluster accept"), "it is accepted")
	f.Expect(f.cluster().Spec.Acceptance).To(Equal(v1alpha1.AcceptanceAccepted))
}

func TestJoinMakesObjectsForARepository(t *testing.T) {
	f := newEnv(t)
	dir := t.TempDir()
	out := f.succeeds("cluster join NAME --accept=auto --dry-run -o yaml --output-dir", dir)
	f.Expect(apierrors.IsNotFound(f.Client.Get(t.Context(), client.ObjectKey{Name: f.name}, &v1alpha1.Cluster{}))).To(BeTrue(), "nothing is made")
	f.Expect(f.tokens()).To(BeEmpty())
	f.Expect(out).NotTo(ContainSubstring("status"))
	objects := strings.Split(out, "---\n")
	f.Expect(objects).To(HaveLen(2))
	for i, object := range []client.Object{&v1alpha1.Cluster{}, &corev1.Secret{}} {
		f.Expect(yaml.UnmarshalStrict([]byte(objects[i]), object)).To(Succeed())
		f.ExpectApplied(object)
	}
	f.Expect(f.cluster().Spec.AcceptancePolicy).To(Equal(v1alpha1.AcceptanceAuto))
	f.Expect(f.tokens()).To(HaveLen(1))
	f.Expect(filepath.Join(dir, f.name+".bootstrap.kubeconfig")).To(BeARegularFile())
}

func TestJoinRefuses(t *testing.T) {
	f := newEnv(t)
	f.fails(2, "want exactly one name", "cluster join")
	f.fails(2, "reserved", "cluster join kube-public")
	f.fails(2, "lower case", "cluster join Upper")
	f.fails(2, "want one of manual, auto, now", "cluster join NAME --accept=later")
	f.fails(2, "at least 10m", "cluster join NAME --token-ttl 1m")
	f.fails(2, "--dry-run", "cluster join NAME --dry-run")
	f.fails(2, "--output-dir", "cluster join NAME -o yaml")
	f.fails(2, "want https", "cluster join NAME --agent-server http://hub")
	f.fails(1, "writing to --output-dir", "cluster join NAME --output-dir /proc")
	f.fails(4, "--accept=now", "cluster join NAME --credential serviceaccount")
	f.Expect(apierrors.IsNotFound(f.Client.Get(t.Context(), client.ObjectKey{Name: f.name}, &v1alpha1.Cluster{}))).To(BeTrue(), "nothing is half made")
	f.Expect(f.tokens()).To(BeEmpty())

	f.succeeds("cluster join NAME")
	f.report(v1alpha1.ClusterJoinedCondition, metav1.ConditionTrue, v1alpha1.ReasonLeaseRenewed)
	f.fails(4, "has joined already", "cluster join NAME")
	f.Expect(f.succeeds("cluster join NAME --again")).To(ContainSubstring("already there"))
	f.succeeds("cluster deny NAME")
	f.fails(4, "cluster accept "+f.name, "cluster join NAME")
}

func TestJoinWaitsForReadyAndSaysWhatIsMissing(t *testing.T) {
	f := newEnv(t)
	r := f.hollow("cluster join NAME --accept=now --wait --timeout 100ms")
	f.Expect(r.code).To(Equal(5))
	f.Expect(r.errOut).To(ContainSubstring("is not ready after 100ms"))
	f.report(v1alpha1.ReadyCondition, metav1.ConditionTrue, v1alpha1.ReasonReady)
	f.Expect(f.succeeds("cluster accept NAME --wait")).To(ContainSubstring("is ready"))
}

func TestDenyTakesTokensAwayAndAcceptTakesItBack(t *testing.T) {
	f := newEnv(t)
	f.succeeds("cluster join NAME")
	f.succeeds("cluster join NAME")
	f.Expect(f.tokens()).To(HaveLen(2))
	f.Expect(f.succeeds("cluster deny NAME")).To(Equal("cluster.hollowfleet.io/" + f.name + " denied\n2 join tokens deleted\nits agent has no access any more\n"))
	f.Expect(f.tokens()).To(BeEmpty())
	f.Expect(f.cluster().Spec.Acceptance).To(Equal(v1alpha1.AcceptanceDenied))
	f.Expect(f.succeeds("cluster deny NAME")).To(ContainSubstring("was denied already"))
	f.Expect(f.succeeds("cluster accept NAME")).To(ContainSubstring("accepted"))
	f.Expect(f.cluster().Spec.Acceptance).To(Equal(v1alpha1.AcceptanceAccepted))
}

// Claim: `cluster deny` returns when access is gone; exit code 5 while the hub is down. Broken: it does not wait.
func TestDenyWaitsUntilTheAccessIsGone(t *testing.T) {
	f := newEnv(t)
	f.succeeds("cluster join NAME")
	f.fails(2, "--wait=false", "cluster deny NAME --end-watches --wait=false")
	// No hub runs here: as if it were down.
	binding := f.agentRights()
	f.Eventually(func(g Gomega) {
		r := f.hollow("cluster deny NAME --timeout 300ms")
		g.Expect(r.code).To(Equal(5), r.errOut)
		g.Expect(r.errOut).To(ContainSubstring("is denied, but its agent still has access after 300ms"))
		g.Expect(r.out).NotTo(ContainSubstring("no access"))
	}).WithTimeout(patience).Should(Succeed(), "what is not so is not said")
	f.Expect(f.succeeds("cluster deny NAME --wait=false")).NotTo(ContainSubstring("no access"))
	f.Expect(f.cluster().Spec.Acceptance).To(Equal(v1alpha1.AcceptanceDenied))
	f.Expect(f.tokens()).To(BeEmpty())

	f.ExpectDeleted(binding)
	f.Expect(f.succeeds("cluster deny NAME")).To(ContainSubstring("its agent has no access any more"))
}

// agentRights plays the hub, and gives more than that does.
func (f *env) agentRights() *rbacv1.ClusterRoleBinding {
	f.T.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: f.name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: v1alpha1.AgentGroupPrefix + f.name}},
	}
	f.ExpectApplied(binding)
	return binding
}

func TestDecisionsPrintTheCluster(t *testing.T) {
	f := newEnv(t)
	f.succeeds("cluster join NAME")
	for _, test := range []struct{ command, says string }{
		{"accept NAME", "accepted"}, {"deny NAME", "no access any more"}, {"remove NAME --yes", "removed"},
	} {
		uid := f.cluster().UID
		f.fails(2, "xml", "cluster "+test.command+" -o xml")
		r := f.hollow("cluster " + test.command + " -o yaml")
		f.Expect(r.code).To(Equal(0), r.errOut)
		printed := &v1alpha1.Cluster{}
		f.Expect(yaml.UnmarshalStrict([]byte(r.out), printed)).To(Succeed(), "standard output is the object alone")
		f.Expect(printed.Kind).To(Equal("Cluster"))
		f.Expect(printed.UID).To(Equal(uid))
		f.Expect(r.errOut).To(ContainSubstring(test.says))
	}
	f.Expect(f.completes("cluster deny x", "--output=")).To(ContainElements("json", "yaml"))
	f.Expect(f.completes("local up", "--output=")).To(Equal([]string{"json", "yaml", "wide"}))
	f.Expect(f.completes("local status", "--output=")).To(Equal([]string{"json", "yaml", "wide"}))
}

func TestDecisionsTellMoreWhenWide(t *testing.T) {
	f := newEnv(t)
	f.succeeds("cluster join NAME")
	for _, test := range []struct{ command, before string }{
		{"accept NAME", "Pending"}, {"accept NAME", "Accepted"}, {"deny NAME", "Accepted"}, {"remove NAME --yes", "Denied"},
	} {
		out := f.succeeds("cluster " + test.command + " -o wide")
		f.Expect(out).To(HavePrefix("cluster.hollowfleet.io/" + f.name + " "))
		f.Expect(out).To(MatchRegexp(`\n  Acceptance before:  `+test.before+`\n  Namespace: +not made yet\n  Credential: +Certificate\n`), test.command)
	}
}

func TestEveryCommandWithAFormatTakesWide(t *testing.T) {
	for command, formats := range map[string]string{
		"cluster list": "", "cluster join": "kubeconfig", "cluster accept": "", "cluster deny": "", "cluster acknowledge": "", "cluster remove": "", "cluster remove-finalizers": "",
		"freeze": "", "unfreeze": "", "rollout status": "", "rollout history": "", "rollout undo": "", "rollout pause": "", "rollout resume": "",
		"local up": "", "local status": "",
	} {
		f := newEnv(t)
		f.Expect(f.succeeds(command+" --help")).To(MatchRegexp(
			`(?m)^ +-o, --output \S+ +output format: .*json.*`+formats+`.*; wide adds details$`), command)
		f.Expect(f.completes(command+" x", "--output=")).To(ContainElements("json", "yaml", "wide"), command)
	}
}

func TestDenyEndsWatchesWhenAsked(t *testing.T) {
	f := newEnv(t)
	f.succeeds("cluster join NAME")
	long := &client.ListOptions{Raw: &metav1.ListOptions{TimeoutSeconds: new(int64(3600))}}
	var watches []watch.Interface
	for _, kind := range []client.ObjectList{&v1alpha1.ClusterList{}, &v1alpha1.MachineList{}, &v1alpha1.MachineClassList{}} {
		opened, err := f.Client.Watch(t.Context(), kind, long)
		f.Expect(err).NotTo(HaveOccurred())
		t.Cleanup(opened.Stop)
		watches = append(watches, opened)
	}
	binding := f.agentRights()
	f.Eventually(func(g Gomega) {
		r := f.hollow("cluster deny NAME --end-watches --timeout 300ms")
		g.Expect(r.code).To(Equal(5))
		g.Expect(r.errOut).To(ContainSubstring("still has access"))
	}).WithTimeout(patience).Should(Succeed(), "it does not end what could start over")

	f.ExpectDeleted(binding)
	before := f.categories()
	f.Expect(f.succeeds("cluster deny NAME --end-watches")).To(ContainSubstring("all watches of clusters, machine classes and machines ended"))
	for _, one := range watches {
		f.Eventually(func() bool {
			select {
			case _, open := <-one.ResultChan():
				return open
			default:
				return true
			}
		}).WithTimeout(patience).Should(BeFalse(), "it has ended")
	}
	f.Expect(f.categories()).To(Equal(before), "the definitions are as before")
}

func TestDenyThatIsInterruptedLeavesTheDefinitionsAsTheyWere(t *testing.T) {
	f := newEnv(t)
	f.succeeds("cluster join NAME")
	before := f.categories()
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		ended <- cli.Execute(ctx, []string{"cluster", "deny", f.name, "--end-watches", "--kubeconfig", testenv.Server().Cluster.AdminKubeconfig()},
			genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: io.Discard, ErrOut: io.Discard})
	}()
	f.Eventually(f.categories).WithTimeout(patience).WithPolling(glance).ShouldNot(Equal(before))
	interrupt()
	f.Eventually(ended).WithTimeout(patience).Should(Receive(Equal(130)))
	f.Expect(f.categories()).To(Equal(before))
}

// categories are those of the kinds that agents watch.
func (f *env) categories() map[string][]string {
	f.T.Helper()
	all := map[string][]string{}
	for _, resource := range []string{"clusters", "machines", "machineclasses"} {
		definition := &unstructured.Unstructured{}
		definition.SetAPIVersion("apiextensions.k8s.io/v1")
		definition.SetKind("CustomResourceDefinition")
		f.Expect(f.Client.Get(f.T.Context(), client.ObjectKey{Name: resource + ".hollowfleet.io"}, definition)).To(Succeed())
		categories, _, err := unstructured.NestedStringSlice(definition.Object, "spec", "names", "categories")
		f.Expect(err).NotTo(HaveOccurred())
		all[resource] = categories
	}
	return all
}
