package plane_test

import (
	"bufio"
	"bytes"
	"context"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/controlplane"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/plane"
)

// hasNoConnections wants no connection to etcd. A look at the size of the database makes one for a moment.
func hasNoConnections(t *testing.T) {
	count := 0
	err := wait.PollUntilContextTimeout(t.Context(), time.Second, patience, true, func(context.Context) (bool, error) {
		count = countGoroutines(t, "transport.(*http2Client).reader")
		return count == 0, nil
	})
	if err != nil {
		t.Errorf("there are %d connections to etcd", count)
	}
}

// Claim: An API server whose etcd member ended uses the next one, and so do its watches. Broken: streams that stay with the member that ended.
func outlivesMember(t *testing.T, c *cluster) {
	maps := c.client(t).CoreV1().ConfigMaps("default")
	watcher, err := maps.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=after-etcd"})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	if err := plane.KillComponent(c.name, controlplane.Etcd); err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), time.Second, patience, true, func(ctx context.Context) (bool, error) {
		_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "after-etcd"}}, metav1.CreateOptions{})
		return err == nil || apierrors.IsAlreadyExists(err), nil
	})
	if err != nil {
		t.Fatalf("%s takes no write after its member ended: %v", c.name, err)
	}
	select {
	case event, open := <-watcher.ResultChan():
		if got, ok := event.Object.(*corev1.ConfigMap); !open || !ok || got.Name != "after-etcd" {
			t.Errorf("the watch of %s saw %v", c.name, event)
		}
	case <-time.After(patience):
		t.Errorf("the watch of %s saw nothing after its member ended", c.name)
	}
	// A list waits until the cache has all that etcd has.
	if found, err := maps.List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=after-etcd"}); err != nil || len(found.Items) != 1 {
		t.Errorf("%s lists %d objects of one: %v", c.name, len(found.Items), err)
	}
}

// countGoroutines returns how many goroutines are in the function.
func countGoroutines(t *testing.T, function string) int {
	t.Helper()
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		t.Fatal(err)
	}
	count, same := 0, 0
	for lines := bufio.NewScanner(&profile); lines.Scan(); {
		if number, _, ok := strings.Cut(lines.Text(), " @ "); ok {
			same, _ = strconv.Atoi(number)
		}
		if strings.Contains(lines.Text(), function+"+") {
			count += same
			same = 0
		}
	}
	return count
}

// Claim: API servers compact etcd's history. Broken: clients that do not know where etcd listens, for which upstream starts no compaction.
func TestHistoryIsCompacted(t *testing.T) {
	c := start(t, "compacted", filepath.Join(shortDir(t), "c"), "etcd-compaction-interval=1s")
	defer c.end(t)
	maps := c.client(t).CoreV1().ConfigMaps("default")
	object, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "changing"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first := object.ResourceVersion
	err = wait.PollUntilContextTimeout(t.Context(), time.Second, patience, true, func(ctx context.Context) (bool, error) {
		object.Data = map[string]string{"at": time.Now().String()}
		if object, err = maps.Update(ctx, object, metav1.UpdateOptions{}); err != nil {
			return false, err
		}
		_, err := maps.List(ctx, metav1.ListOptions{ResourceVersion: first, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
		return apierrors.IsResourceExpired(err) || apierrors.IsGone(err), nil
	})
	if err != nil {
		t.Errorf("revision %s can still be read: %v", first, err)
	}
}
