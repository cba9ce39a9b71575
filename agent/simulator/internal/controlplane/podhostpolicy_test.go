package controlplane_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const podhostNamespace, agentsGroup = "hollowfleet", "hollowfleet:agents"

// Whoever may create a pod that the podhost starts may start a process of its machine, with a configuration of their own.
// Claim: Only the agent creates the podhost's pods. Broken: no policy.
// Edge case: An editor could start hollow-nodes.
func TestOnlyTheAgentCreatesPodsForThePodhost(t *testing.T) {
	c := startCluster(t, t.TempDir(), withoutPods+",podhost")
	admin, agent := c.admin(t), c.as(t, "hollowfleet-agent", agentsGroup)
	for _, name := range []string{podhostNamespace, "elsewhere"} {
		if _, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		letEdit(t, admin, name, rbacv1.Subject{Kind: rbacv1.UserKind, Name: "editor"}, rbacv1.Subject{Kind: rbacv1.GroupKind, Name: agentsGroup},
			rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "hollowfleet-agent", Namespace: podhostNamespace})
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "hollowfleet-agent"}}
	if _, err := admin.CoreV1().ServiceAccounts(podhostNamespace).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	editor := c.as(t, "editor")
	within(t, patience, "the editor has the rights of the role", func() error {
		_, err := editor.CoreV1().Pods(podhostNamespace).List(ctx, metav1.ListOptions{})
		return err
	})

	for who, client := range map[string]kubernetes.Interface{
		"an editor": editor, "the administrator": admin, "a node": c.as(t, "system:node:"+c.ready(t).PodhostNode, "system:nodes"),
		"an editor as the agent's ServiceAccount": c.impersonate(t, "editor", "system:serviceaccount:hollowfleet:hollowfleet-agent"),
	} {
		t.Run(who, func(t *testing.T) {
			pod := agentPod(t)
			if who == "a node" {
				pod = mirrorPod(t, admin, c.ready(t).PodhostNode)
			}
			_, err := client.CoreV1().Pods(podhostNamespace).Create(ctx, pod, metav1.CreateOptions{})
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "metadata.namespace: the podhost runs the pods of namespace hollowfleet") {
				t.Errorf("the pod: %v", err)
			}
		})
	}

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "m1"}, StringData: map[string]string{"config": "x"}}
	if _, err := agent.CoreV1().Secrets(podhostNamespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		t.Errorf("the agent's Secret: %v", err)
	}
	if _, err := agent.CoreV1().Pods(podhostNamespace).Create(ctx, agentPod(t), metav1.CreateOptions{}); err != nil {
		t.Errorf("the agent's pod: %v", err)
	}
	t.Run("what is the agent's", func(t *testing.T) { staysTheAgents(t, editor, secret) })
	t.Run("elsewhere", func(t *testing.T) {
		if _, err := editor.CoreV1().Pods("elsewhere").Create(ctx, agentPod(t), metav1.CreateOptions{}); err != nil {
			t.Errorf("a pod of another namespace: %v", err)
		}
	})
}

// letEdit gives the role edit in a namespace.
func letEdit(t *testing.T, admin kubernetes.Interface, namespace string, subjects ...rbacv1.Subject) {
	t.Helper()
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "edit"}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
	}
	if _, err := admin.RbacV1().RoleBindings(namespace).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// staysTheAgents tries to change a hollow-node of the agent, and its configuration.
func staysTheAgents(t *testing.T, editor kubernetes.Interface, secret *corev1.Secret) {
	pods, secrets := editor.CoreV1().Pods(podhostNamespace), editor.CoreV1().Secrets(podhostNamespace)
	_, image := pods.Patch(ctx, "m1", "application/strategic-merge-patch+json", []byte(`{"spec":{"containers":[{"name":"hollow-node","image":"another"}]}}`), metav1.PatchOptions{})
	_, content := secrets.Patch(ctx, "m1", "application/merge-patch+json", []byte(`{"stringData":{"config":"y"}}`), metav1.PatchOptions{})
	another := secret.DeepCopy()
	another.Name = "m2"
	_, created := secrets.Create(ctx, another, metav1.CreateOptions{})
	for what, err := range map[string]error{"the image": image, "the configuration": content, "another Secret": created} {
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "group hollowfleet:agents") {
			t.Errorf("%s: %v", what, err)
		}
	}
	// What reaches no process is as the roles say.
	if err := secrets.Delete(ctx, "m1", metav1.DeleteOptions{}); err != nil {
		t.Errorf("deleting a Secret: %v", err)
	}
}

// agentPod is a pod as the agent makes it.
func agentPod(t *testing.T) *corev1.Pod {
	t.Helper()
	content, err := os.ReadFile("../../../driver/hollow/testdata/pod.json")
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := json.Unmarshal(content, pod); err != nil {
		t.Fatal(err)
	}
	pod.Namespace = ""
	return pod
}

// mirrorPod is the one pod that a node may create.
func mirrorPod(t *testing.T, admin kubernetes.Interface, node string) *corev1.Pod {
	t.Helper()
	owner, err := admin.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "mirror", Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node, UID: owner.UID, Controller: new(true)}},
		},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "hollow-node", Image: "hollowfleet/hollow-node"}}},
	}
}

// impersonate returns a client of a user who acts as another.
func (c *cluster) impersonate(t *testing.T, user, as string) kubernetes.Interface {
	t.Helper()
	config := c.config(t, c.kubeconfig(t, user))
	config.Impersonate = rest.ImpersonationConfig{UserName: as}
	return kubernetes.NewForConfigOrDie(config)
}
