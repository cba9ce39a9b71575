package controlplane_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/controlplane"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/process"
)

var ctx = context.Background()

// One cluster serves many checks, because a start takes most of their time.
// Claim: NodeRestriction holds a hollow node. Broken: no NodeRestriction. Also: agent/simulator/cmd/hollow-node TestTheIdentityIsRestricted.
// Claim: RBAC refuses. Broken: authorization AlwaysAllow: the cluster does not come up. Also: "refusesStrangers", "holdsNodes".
// Claim: Client certificates are signed. Broken: no signing key. Also: "signsRequests".
// Claim: Data survives a restart. Broken: another data directory each start. Also: "keeps everything over a restart".
// Claim: Ports survive a restart. Broken: the port is not recorded. Also: TestPorts.
// Claim: Each component has its own kubeconfig. Broken: not broken alone. Also: "gives the components identities of their own".
func TestCluster(t *testing.T) {
	c := startCluster(t, t.TempDir(), withoutPods)
	first := c.ready(t)
	t.Run("has the version of its components", func(t *testing.T) {
		version, err := c.admin(t).Discovery().ServerVersion()
		if err != nil {
			t.Fatal(err)
		}
		if version.GitVersion != first.Version || !strings.HasPrefix(version.GitVersion, "v1.37.") {
			t.Errorf("the API server has version %s, ready.json says %s", version.GitVersion, first.Version)
		}
	})
	t.Run("refuses unprivileged users", func(t *testing.T) { refusesStrangers(t, c) })
	t.Run("holds nodes to their own objects", func(t *testing.T) { holdsNodes(t, c) })
	t.Run("signs approved requests only", func(t *testing.T) { signsRequests(t, c) })
	t.Run("lets pods that come to a new Node stay Ready", func(t *testing.T) { newNodesKeepTheirPods(t, c) })
	t.Run("gives the components identities of their own", func(t *testing.T) { separatesIdentities(t, c) })
	t.Run("refuses a second start", func(t *testing.T) { refusesSecondStart(t, c) })
	t.Run("restarts a killed component", func(t *testing.T) { restartsKilled(t, c) })
	t.Run("obeys component commands", func(t *testing.T) { obeysCommands(t, c) })

	if _, err := c.admin(t).CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pids := c.pids(t)
	c.stop(t)
	within(t, patience, "all processes are gone", gone(pids))
	if _, err := os.Stat(c.dir + "/ready.json"); err == nil {
		t.Error("ready.json is there after the stop")
	}
	if _, _, code := simcluster(t, "status", "--data-dir", c.dir); code != 6 {
		t.Errorf("status of a stopped cluster has exit code %d, want 6", code)
	}
	if _, _, code := simcluster(t, "stop", "--data-dir", c.dir); code != 6 {
		t.Errorf("stopping a stopped cluster has exit code %d, want 6", code)
	}

	t.Run("keeps everything over a restart", func(t *testing.T) {
		admin, err := os.ReadFile(first.AdminKubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		again := startCluster(t, c.dir, withoutPods)
		if second := again.ready(t); second.Server != first.Server {
			t.Errorf("the server was %s and is %s", first.Server, second.Server)
		}
		if now, err := os.ReadFile(first.AdminKubeconfig); err != nil || string(now) != string(admin) {
			t.Errorf("the admin kubeconfig has changed (%v)", err)
		}
		if _, err := again.admin(t).CoreV1().ConfigMaps("default").Get(ctx, "kept", metav1.GetOptions{}); err != nil {
			t.Errorf("the earlier object: %v", err)
		}
	})
}

func refusesStrangers(t *testing.T, c *cluster) {
	stranger := c.as(t, "alice", "developers")
	if _, err := stranger.CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("alice lists secrets: %v, want Forbidden", err)
	}
	// The same user may once a rule says so, which shows that it is the
	// rules that refuse.
	review, err := stranger.AuthenticationV1().SelfSubjectReviews().Create(ctx, selfReview(), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := review.Status.UserInfo; got.Username != "alice" || !contains(got.Groups, "developers") {
		t.Errorf("the API server takes the user for %+v", got)
	}
}

func holdsNodes(t *testing.T, c *cluster) {
	n1 := c.as(t, "system:node:n1", "system:nodes")
	node := func(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	if _, err := n1.CoreV1().Nodes().Create(ctx, node("n1"), metav1.CreateOptions{}); err != nil {
		t.Fatalf("a node registers itself: %v", err)
	}
	if _, err := n1.CoreV1().Nodes().Create(ctx, node("n2"), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("n1 registers n2: %v, want Forbidden", err)
	}
	if _, err := c.admin(t).CoreV1().Nodes().Create(ctx, node("n2"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := []byte(`{"metadata":{"labels":{"touched":"yes"}}}`)
	if _, err := n1.CoreV1().Nodes().Patch(ctx, "n2", "application/merge-patch+json", patch, metav1.PatchOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("n1 changes n2: %v, want Forbidden", err)
	}
	if _, err := n1.CoreV1().Nodes().Patch(ctx, "n1", "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		t.Errorf("n1 changes itself: %v", err)
	}
	within(t, patience, "the node has a pod range", func() error {
		found, err := c.admin(t).CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
		if err != nil {
			return err
		}
		podRange, err := netip.ParsePrefix(found.Spec.PodCIDR)
		if err != nil {
			return err
		}
		if podRange.Bits() != 24 || podRange.Addr().As4()[0] != 240 {
			return fmt.Errorf("it is %s", podRange)
		}
		return nil
	})
}

func signsRequests(t *testing.T, c *cluster) {
	joiner, admin := c.as(t, "joiner"), c.admin(t).CertificatesV1().CertificateSigningRequests()
	allowRequests(t, c.admin(t), "joiner")
	var requests []*certificatesv1.CertificateSigningRequest
	for _, node := range []string{"n3", "n4"} {
		request, err := joiner.CertificatesV1().CertificateSigningRequests().Create(ctx, signingRequest(t, node), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		requests = append(requests, request)
	}
	approved, other := requests[0], requests[1]
	approved.Status.Conditions = append(approved.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test",
	})
	if _, err := admin.UpdateApproval(ctx, approved.Name, approved, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "the approved request is signed", func() error {
		found, err := admin.Get(ctx, approved.Name, metav1.GetOptions{})
		if err == nil && len(found.Status.Certificate) == 0 {
			err = errors.New("it has no certificate")
		}
		return err
	})
	found, err := admin.Get(ctx, other.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Status.Conditions) > 0 || len(found.Status.Certificate) > 0 {
		t.Errorf("a request that was not approved has status %+v", found.Status)
	}
}

// allowRequests lets the user make signing requests. The approver that is
// built into the controller manager approves for those who may also have
// nodes approved, as the admin may: no other user is given that.
func allowRequests(t *testing.T, admin kubernetes.Interface, user string) {
	t.Helper()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create"}}},
	}
	if _, err := admin.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// signingRequest is what a kubelet asks for.
func signingRequest(t *testing.T, node string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}
}

func separatesIdentities(t *testing.T, c *cluster) {
	for file, want := range map[string]string{
		"kube-controller-manager": "system:kube-controller-manager",
		"kube-scheduler":          "system:kube-scheduler",
		"admin":                   "admin",
	} {
		client := kubernetes.NewForConfigOrDie(c.config(t, c.dir+"/kubeconfigs/"+file+".conf"))
		review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, selfReview(), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		user := review.Status.UserInfo
		if user.Username != want {
			t.Errorf("%s.conf is %s, want %s", file, user.Username, want)
		}
		if isMaster := contains(user.Groups, "system:masters"); isMaster != (file == "admin") {
			t.Errorf("%s.conf is in system:masters: %t", file, isMaster)
		}
	}
}

func refusesSecondStart(t *testing.T, c *cluster) {
	_, stderr, code := simcluster(t, "start", "--name", "c1", "--data-dir", c.dir, "--components", apiServerOnly)
	if code != 3 || !strings.Contains(stderr, "in use") || !strings.Contains(stderr, fmt.Sprint(c.command.Process.Pid)) {
		t.Errorf("exit code %d and %q, want 3 and the process that uses the directory", code, stderr)
	}
	if status, code := c.status(t); code != 0 || !status.Healthy {
		t.Errorf("the running cluster has suffered: exit code %d, %+v", code, status)
	}
}

func restartsKilled(t *testing.T, c *cluster) {
	for _, component := range []string{controlplane.APIServer, controlplane.Etcd} {
		before := c.ready(t).Components[component].PID
		succeed(t, "component", "kill", component, "--data-dir", c.dir)
		if err := gone([]int{before})(); err != nil {
			t.Errorf("after kill has returned: %v", err)
		}
		within(t, startPatience, component+" runs again and the cluster is healthy", func() error {
			status, _ := c.status(t)
			if now := c.ready(t).Components[component].PID; now == before || now == 0 {
				return fmt.Errorf("ready.json says process %d", now)
			}
			if !status.Healthy {
				return fmt.Errorf("status %+v", status.Components)
			}
			return nil
		})
	}
	if _, err := c.admin(t).CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{}); err != nil {
		t.Errorf("what was written before the kills: %v", err)
	}
}

func obeysCommands(t *testing.T, c *cluster) {
	act := func(action string) { succeed(t, "component", action, controlplane.Scheduler, "--data-dir", c.dir) }
	expect := func(state process.State, healthy bool, wantCode int) {
		t.Helper()
		status, code := c.status(t)
		component := status.Components[controlplane.Scheduler]
		if component.State != state || component.Healthy != healthy || code != wantCode {
			t.Errorf("the scheduler is %+v with exit code %d, want %s, healthy %t and exit code %d", component, code, state, healthy, wantCode)
		}
	}
	act("pause")
	expect(process.StatePaused, false, 7)
	act("resume")
	expect(process.StateRunning, true, 0)
	act("stop")
	expect(process.StateStopped, false, 7)
	if pid := c.ready(t).Components[controlplane.Scheduler].PID; pid != 0 {
		t.Errorf("ready.json says process %d of a stopped component", pid)
	}
	act("start")
	expect(process.StateRunning, true, 0)
	if _, stderr, code := simcluster(t, "component", "stop", "kubelet", "--data-dir", c.dir); code != 2 || !strings.Contains(stderr, "kube-scheduler") {
		t.Errorf("an unknown component gives exit code %d and %q, want 2 and the names", code, stderr)
	}
}
