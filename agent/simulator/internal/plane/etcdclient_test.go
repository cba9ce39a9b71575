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
)

// sharesConnections wants one connection to etcd for each cluster. A look at the size of the database makes another one for a moment.
func sharesConnections(t *testing.T, clusters []*cluster) {
	count := 0
	err := wait.PollUntilContextTimeout(t.Context(), time.Second, patience, true, func(context.Context) (bool, error) {
		count = countGoroutines(t, "transport.(*http2Client).reader")
		return count == len(clusters), nil
	})
	if err != nil {
		t.Errorf("%d clusters have %d connections to etcd, want one each", len(clusters), count)
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

// Claim: API servers compact etcd's history. Broken: clients without endpoints, for which upstream starts no compaction.
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
