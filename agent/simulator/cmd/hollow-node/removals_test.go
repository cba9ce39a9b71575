package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	waves    = 20
	waveSize = 50
	// firstPort is below those that the kernel gives to others.
	firstPort = 20000
	// inFlight is how long a request may be on its way to an API server on a busy machine. Each loop of a kubelet that writes does so
	// every ten seconds.
	inFlight = 5 * time.Second
	// auditNodes records the writes of nodes.
	auditNodes = `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived","ResponseStarted"],"rules":[
		{"level":"Metadata","userGroups":["system:nodes"],"verbs":["create","update","patch","delete"]},{"level":"None"}]}`
)

// Claim: Of 1,000 nodes that come and go in a pack, none writes after its end. Broken: the requests of an ended node are sent.
func TestAThousandNodesComeAndGo(t *testing.T) {
	longOnly(t)
	audit := t.TempDir()
	policy, log := filepath.Join(audit, "policy"), filepath.Join(audit, "log")
	if err := os.WriteFile(policy, []byte(auditNodes), 0o600); err != nil {
		t.Fatal(err)
	}
	c := startCluster(t, "--apiserver-arg", "audit-policy-file="+policy, "--apiserver-arg", "audit-log-path="+log)
	t.Cleanup(c.stop)
	stay := startPackedHere(t, c, 10)
	ends := map[string]time.Time{}
	var first remainder
	for w := range waves {
		if w == 1 {
			first = measureRemainder() // With what only the first ones leave.
		}
		c.runWave(t, w, ends)
		t.Logf("wave %d has gone", w)
	}
	last := measureRemainder()
	removals := float64((waves - 1) * waveSize)
	goroutines, kibibytes := (last.goroutines-first.goroutines)/removals, (last.bytes-first.bytes)/removals/1024
	t.Logf("%+v; after %g removals: %+v: each leaves %.1f goroutines and %.0f KiB", first, removals, last, goroutines, kibibytes)
	if goroutines > goroutinesLeft || kibibytes > kibibytesLeft {
		t.Errorf("each leaves %.1f goroutines and %.0f KiB, want at most %g and %g", goroutines, kibibytes, goroutinesLeft, kibibytesLeft)
	}
	for _, p := range stay {
		began := time.Now()
		eventually(t, p.name+" renews its lease", time.Minute, func(ctx context.Context) error { return p.leaseRenewedAfter(ctx, began) })
	}
	endAll(stay)
	expectNoLateWrites(t, log, ends)
}

// runWave lets nodes join, end and be deleted, all at once.
func (c *cluster) runWave(t *testing.T, w int, ends map[string]time.Time) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var approver, nodes sync.WaitGroup
	approver.Go(func() { c.approveAll(ctx) })
	var guard sync.Mutex
	for i := range waveSize {
		p := &packedHere{process: newProcess(t, c, configurationOf(fmt.Sprintf("gone-%d-%d", w, i)), goodToken)}
		p.port = strconv.Itoa(firstPort + w*waveSize + i)
		p.run(t)
		nodes.Go(func() {
			if err := p.work(ctx, i); err != nil {
				t.Errorf("%s: %v", p.name, err)
			}
			if i%2 == 0 {
				close(p.kill)
			} else {
				p.end()
			}
			select {
			case <-p.done:
			case <-time.After(time.Minute):
				t.Errorf("%s does not end", p.name) // A podhost would end its pack.
			}
			ended := time.Now()
			guard.Lock()
			ends[p.name] = ended
			guard.Unlock()
			// A kubelet that lived would register it again.
			if err := p.client.CoreV1().Nodes().Delete(ctx, p.name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				t.Errorf("deleting %s: %v", p.name, err)
			}
			p.end()
		})
	}
	nodes.Wait()
	cancel()
	approver.Wait()
	requests := c.client.CertificatesV1().CertificateSigningRequests()
	if err := requests.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}

// approveAll approves each request for a certificate until the context ends.
func (c *cluster) approveAll(ctx context.Context) {
	requests := c.client.CertificatesV1().CertificateSigningRequests()
	_ = wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		list, err := requests.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, nil
		}
		for _, one := range list.Items {
			if len(one.Status.Conditions) == 0 {
				one.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test"}}
				_, _ = requests.UpdateApproval(ctx, one.Name, &one, metav1.UpdateOptions{}) // The next round tries again.
			}
		}
		return false, nil
	})
}

// work lets a node do something until it shall end: a third of them end while their pods start, a third once they are ready, and the
// others at any moment.
func (p *packedHere) work(ctx context.Context, i int) error {
	if i%3 == 2 {
		<-time.After(rand.N(10 * time.Second))
		return nil
	}
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
		node, err := p.node(ctx)
		if err != nil {
			return false, nil
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for its Node to be ready: %w", err)
	}
	if i%3 == 1 {
		return nil
	}
	for n := range 5 {
		if _, err := p.client.CoreV1().Pods("default").Create(ctx, p.pod(fmt.Sprint(n)), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	<-time.After(rand.N(2 * time.Second))
	return nil
}

// expectNoLateWrites fails if the API server got a write of a node after its end, or none before.
func expectNoLateWrites(t *testing.T, log string, ends map[string]time.Time) {
	t.Helper()
	file, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	writes, late := map[string]int{}, 0
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct {
			Verb, RequestURI         string
			User                     struct{ Username string }
			RequestReceivedTimestamp time.Time
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(event.User.Username, "system:node:")
		end, gone := ends[name]
		if writes[name]++; gone && event.RequestReceivedTimestamp.After(end.Add(inFlight)) {
			if late++; late <= 10 {
				t.Errorf("%s: %s %s, %s after its end", name, event.Verb, event.RequestURI, event.RequestReceivedTimestamp.Sub(end))
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	silent, all := 0, 0
	for name := range ends {
		if all += writes[name]; writes[name] == 0 {
			silent++
		}
	}
	t.Logf("%d nodes have written %d times, %d too late; %d never", len(ends), all, late, silent)
	if late > 0 || silent > len(ends)/3 {
		t.Errorf("of %d nodes %d have never written, and %d writes came after the end of theirs", len(ends), silent, late)
	}
}
