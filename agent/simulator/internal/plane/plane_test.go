package plane_test

import (
	"context"
	"errors"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// beats writes a ConfigMap again and again and watches it. It fails the test when a write or the watch fails, or is late.
type beats struct {
	stop context.CancelFunc
	done chan struct{}
	// seen and slowest are read when done is closed.
	seen    int
	slowest time.Duration
	err     error
}

// beatPause is the time between two writes.
const beatPause = 50 * time.Millisecond

func beat(t *testing.T, c *cluster) *beats {
	t.Helper()
	client := c.client(t)
	ctx, stop := context.WithCancel(t.Context())
	b := &beats{stop: stop, done: make(chan struct{})}
	object, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "beat-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := client.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + object.Name, ResourceVersion: object.ResourceVersion,
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(b.done)
		defer watcher.Stop()
		for ctx.Err() == nil {
			began := time.Now()
			object.Data = map[string]string{"at": began.String()}
			updated, err := client.CoreV1().ConfigMaps("default").Update(ctx, object, metav1.UpdateOptions{})
			if err != nil {
				if ctx.Err() == nil {
					b.err = err
				}
				return
			}
			object = updated
			select {
			case event, open := <-watcher.ResultChan():
				if got, ok := event.Object.(*corev1.ConfigMap); !open || !ok || got.ResourceVersion != object.ResourceVersion {
					b.err = errors.New("the watch has a gap")
					return
				}
			case <-ctx.Done():
				return
			}
			b.seen++
			b.slowest = max(b.slowest, time.Since(began))
			select {
			case <-time.After(beatPause):
			case <-ctx.Done():
			}
		}
	}()
	return b
}

// finish ends the beats and wants that all of them were seen in time.
func (b *beats) finish(t *testing.T, name string) {
	t.Helper()
	b.stop()
	<-b.done
	if b.err != nil {
		t.Errorf("%s: %v", name, b.err)
	}
	if b.seen == 0 {
		t.Errorf("%s: no write was seen", name)
	}
	t.Logf("%s: %d writes seen by the watch, the slowest after %s", name, b.seen, b.slowest)
}

// Claim: Control planes that share a process are clusters of their own. Broken: informers without a name of their own.
func TestPlanes(t *testing.T) {
	clusters := startAll(t, 3)
	t.Run("a token of one is refused by the others", func(t *testing.T) { refusesTokens(t, clusters) })
	t.Run("kinds do not cross", func(t *testing.T) { keepsKinds(t, clusters) })
	t.Run("each describes its own kinds", func(t *testing.T) { describesKinds(t, clusters) })
	t.Run("each merges lists by its own kinds", func(t *testing.T) { mergesLists(t, clusters) })
	t.Run("one serves fewer kinds", func(t *testing.T) { describesFewerKinds(t, clusters) })
	t.Run("none has a connection to etcd", hasNoConnections)
	t.Run("one outlives its etcd", func(t *testing.T) { outlivesMember(t, clusters[0]) })
	t.Run("each counts its own requests", func(t *testing.T) { countsOwnRequests(t, clusters) })
	t.Run("one stops and starts while the others serve", func(t *testing.T) {
		client := clusters[0].client(t)
		mark := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Data: map[string]string{"a": "b"}}
		if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), mark, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		neighbours := []*beats{beat(t, clusters[1]), beat(t, clusters[2])}
		for range 2 {
			clusters[0].end(t)
			clusters[0] = start(t, clusters[0].name, clusters[0].dir)
		}
		for i, b := range neighbours {
			b.finish(t, clusters[i+1].name)
		}
		found, err := clusters[0].client(t).CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{})
		if err != nil || found.Data["a"] != "b" {
			t.Errorf("after two starts: %v, %v", found.Data, err)
		}
		controlsPods(t, clusters[0])
	})
	t.Run("each still describes its own kinds", func(t *testing.T) { describesKinds(t, clusters) })
	t.Run("a removed kind is described no more", func(t *testing.T) { removesKind(t, clusters[0]) })
	t.Run("one that holds its requests does not hold up the others", func(t *testing.T) { holdsRequests(t, clusters) })
	for _, c := range clusters {
		c.end(t)
	}
}

func refusesTokens(t *testing.T, clusters []*cluster) {
	token, err := clusters[0].client(t).CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range clusters {
		config := rest.AnonymousClientConfig(c.config(t))
		config.BearerToken = token.Status.Token
		_, err := kubernetes.NewForConfigOrDie(config).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if i == 0 && err != nil {
			t.Errorf("its own cluster refuses it: %v", err)
		}
		if i > 0 && !apierrors.IsUnauthorized(err) {
			t.Errorf("%s answers %v", c.name, err)
		}
	}
	// The authority of another cluster is not trusted either.
	config := clusters[1].config(t)
	config.Host = clusters[0].config(t).Host
	if _, err := kubernetes.NewForConfigOrDie(config).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Errorf("%s takes the administrator of %s", clusters[0].name, clusters[1].name)
	}
}

func keepsKinds(t *testing.T, clusters []*cluster) {
	definitions := apiextensions.NewForConfigOrDie(clusters[0].config(t)).ApiextensionsV1().CustomResourceDefinitions()
	if _, err := definitions.Create(t.Context(), thing(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	serves := func(c *cluster) bool {
		_, err := c.client(t).Discovery().ServerResourcesForGroupVersion("example.com/v1")
		return err == nil
	}
	err := wait.PollUntilContextTimeout(t.Context(), beatPause, patience, true, func(context.Context) (bool, error) { return serves(clusters[0]), nil })
	if err != nil {
		t.Fatalf("%s does not serve its own kind: %v", clusters[0].name, err)
	}
	for _, c := range clusters[1:] {
		if serves(c) {
			t.Errorf("%s serves a kind of %s", c.name, clusters[0].name)
		}
	}
}

// controlsPods wants that the controllers make a Deployment's pod, and that the scheduler says why it cannot run.
func controlsPods(t *testing.T, c *cluster) {
	t.Helper()
	client := c.client(t)
	if _, err := client.AppsV1().Deployments("default").Create(t.Context(), deployment("web"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	err := wait.PollUntilContextTimeout(t.Context(), beatPause, patience, true, func(ctx context.Context) (bool, error) {
		pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil || len(pods.Items) != 1 {
			return false, nil //nolint:nilerr // It is asked again.
		}
		for _, condition := range pods.Items[0].Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Reason == corev1.PodReasonUnschedulable {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		t.Errorf("%s: no pod that the scheduler has looked at: %v", c.name, err)
	}
}

// countsOwnRequests wants that load tests, which read this metric, find what their own cluster was asked.
func countsOwnRequests(t *testing.T, clusters []*cluster) {
	const requests = 7
	before := []int{listsOf(t, clusters[0]), listsOf(t, clusters[1])}
	client := clusters[0].client(t)
	for range requests {
		if _, err := client.CoreV1().PodTemplates("default").List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		// A name that is none leaves nothing, or clients could make labels without end.
		_, _ = client.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces/default/nonsense").DoRaw(t.Context())
	}
	if got := listsOf(t, clusters[0]) - before[0]; got != requests {
		t.Errorf("%s counts %d requests, want %d", clusters[0].name, got, requests)
	}
	if got := listsOf(t, clusters[1]) - before[1]; got != 0 {
		t.Errorf("%s counts %d requests that others got", clusters[1].name, got)
	}
}

// own are the metrics that a cluster may serve: all others are those of its process.
var own = regexp.MustCompile(`^(# |apiserver_request_(total|duration_seconds|sli_duration_seconds)[_{])`)

// listsOf returns how many times the API server was asked for PodTemplates of a namespace.
func listsOf(t *testing.T, c *cluster) int {
	t.Helper()
	content, err := c.client(t).Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for line := range strings.Lines(string(content)) {
		if !own.MatchString(line) || strings.Contains(line, "nonsense") {
			t.Errorf("%s serves %s", c.name, line)
		}
		if strings.HasPrefix(line, "apiserver_request_sli_duration_seconds_count{") && strings.Contains(line, `resource="podtemplates"`) &&
			strings.Contains(line, `scope="namespace"`) && strings.Contains(line, `verb="LIST"`) {
			if count, err = strconv.Atoi(line[strings.LastIndexByte(line, ' ')+1 : len(line)-1]); err != nil {
				t.Fatal(err)
			}
		}
	}
	return count
}

const (
	// heldRequests is more than an API server works on at once, max-mutating-requests-inflight.
	heldRequests = 120
	// neighbourBound is how long a write and its watch may take beside a cluster whose requests are all held, and heldStopBound how
	// long that cluster may take to stop: the graces of its components together.
	neighbourBound = 5 * time.Second
	heldStopBound  = 20 * time.Second
)

// holdsRequests lets all requests to the first cluster wait for a webhook that never answers, and stops the cluster.
func holdsRequests(t *testing.T, clusters []*cluster) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	url, fail, none, seconds := "https://"+silent.Addr().String(), admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone, int32(30)
	client := clusters[0].client(t)
	hook := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "silent"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
		Name: "silent.example.com", FailurePolicy: &fail, SideEffects: &none, TimeoutSeconds: &seconds, AdmissionReviewVersions: []string{"v1"},
		ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url},
		Rules: []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create}, Rule: admissionregistrationv1.Rule{
			APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"},
		}}},
	}}}
	if _, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), hook, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var held sync.WaitGroup
	for range heldRequests {
		held.Go(func() {
			_, _ = client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "held-"}}, metav1.CreateOptions{})
		})
	}
	if conn, err := silent.Accept(); err == nil {
		defer conn.Close() // The first one is held.
	}
	neighbour := beat(t, clusters[1])
	began := time.Now()
	clusters[0].end(t)
	if took := time.Since(began); took > heldStopBound {
		t.Errorf("the stop of %s took %s", clusters[0].name, took)
	}
	held.Wait()
	neighbour.finish(t, clusters[1].name)
	if neighbour.slowest > neighbourBound {
		t.Errorf("a write to %s took %s", clusters[1].name, neighbour.slowest)
	}
	clusters[0] = start(t, clusters[0].name, clusters[0].dir)
}
