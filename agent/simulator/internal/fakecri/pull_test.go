package fakecri

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const testRate = 10 << 20

// pullTime is how long a pull of an image takes alone.
func pullTime(name string) time.Duration {
	return time.Duration(float64(makeImage(name).Size) / testRate * float64(time.Second))
}

func near(a, b time.Duration) bool { return math.Abs(float64(a-b)) < float64(time.Microsecond) }

func (s *Images) mustPull(t *testing.T, name string) time.Duration {
	t.Helper()
	began := time.Now()
	if _, err := s.PullImage(t.Context(), &runtimeapi.ImageSpec{Image: name}, nil, nil); err != nil {
		t.Error(err)
	}
	return time.Since(began)
}

func TestAPullTakesTheTimeOfItsBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		images := NewImages(ImageOptions{BytesPerSecond: testRate})
		if took := images.mustPull(t, "nginx:1"); !near(took, pullTime("nginx:1")) || took < time.Second/2 {
			t.Errorf("the first pull took %s, want %s", took, pullTime("nginx:1"))
		}
		if took := images.mustPull(t, "nginx:1"); took != 0 {
			t.Errorf("an image that is there took %s", took)
		}
		if err := images.RemoveImage(t.Context(), &runtimeapi.ImageSpec{Image: "nginx:1"}); err != nil {
			t.Fatal(err)
		}
		if took := images.mustPull(t, "nginx:1"); !near(took, pullTime("nginx:1")) {
			t.Errorf("an image that was removed took %s", took)
		}
	})
}

func TestPullsShareTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		images := NewImages(ImageOptions{BytesPerSecond: testRate})
		var wait sync.WaitGroup
		took := [2]time.Duration{}
		names := [2]string{"nginx:1", "redis:7"}
		for i, name := range names {
			wait.Go(func() { took[i] = images.mustPull(t, name) })
		}
		wait.Wait()
		short, long := pullTime(names[0]), pullTime(names[1])
		if first, last := min(took[0], took[1]), max(took[0], took[1]); !near(first, 2*min(short, long)) || !near(last, short+long) {
			t.Errorf("pulls of %s and %s took %s and %s at a time, want %s and %s", short, long, took[0], took[1], 2*min(short, long), short+long)
		}
	})
}

func TestAnImageIsPulledOnceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		images := NewImages(ImageOptions{BytesPerSecond: testRate})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/4)
		defer cancel()
		abandoned := make(chan error, 1)
		spec := &runtimeapi.ImageSpec{Image: "nginx:1"}
		go func() {
			_, err := images.PullImage(ctx, spec, nil, nil)
			abandoned <- err
		}()
		synctest.Wait()
		var wait sync.WaitGroup
		for range 3 {
			wait.Go(func() {
				if took, want := images.mustPull(t, "nginx:1"), time.Second/4+pullTime("nginx:1"); !near(took, want) {
					t.Errorf("a pull that waited for the one that was given up took %s, want %s", took, want)
				}
			})
		}
		wait.Wait()
		if err := <-abandoned; status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("a pull whose context ends: %v", err)
		}
		if len(images.pulling) != 0 || images.link.pulls != 0 {
			t.Errorf("left over: %v, %d pulls", images.pulling, images.link.pulls)
		}
	})
}

// failed pulls an image many times and tells which pulls fail.
func failed(t *testing.T, options ImageOptions, reverse bool) string {
	t.Helper()
	images := NewImages(options)
	const names, times = 20, 10
	outcome := make([]byte, names*times)
	for i := range names {
		if reverse {
			i = names - 1 - i
		}
		name := fmt.Sprint("image-", i)
		for n := range times {
			outcome[i*times+n] = '.'
			_, err := images.PullImage(t.Context(), &runtimeapi.ImageSpec{Image: name}, nil, nil)
			if err == nil {
				break
			}
			if !strings.Contains(err.Error(), name) {
				t.Fatalf("the error does not name the image: %v", err)
			}
			outcome[i*times+n] = 'x'
		}
	}
	return string(outcome)
}

func TestPullsFailBySeed(t *testing.T) {
	options := ImageOptions{FailurePercent: 40, Seed: 7, Node: "n1"}
	want := failed(t, options, false)
	if again := failed(t, options, true); again != want {
		t.Errorf("other pulls fail in another order:\n%s\n%s", want, again)
	}
	if n := strings.Count(want, "x"); n < 5 || n > 30 {
		t.Errorf("%d failures before 20 images were pulled, want about 13:\n%s", n, want)
	}
	for name, change := range map[string]func(*ImageOptions){
		"seed": func(o *ImageOptions) { o.Seed = 8 }, "node": func(o *ImageOptions) { o.Node = "n2" },
	} {
		changed := options
		change(&changed)
		if failed(t, changed, false) == want {
			t.Errorf("with another %s the same pulls fail", name)
		}
	}
	if all := failed(t, ImageOptions{FailurePercent: 100}, false); strings.Contains(all, ".") {
		t.Errorf("with 100 percent some pulls succeed: %s", all)
	}
	if none := failed(t, ImageOptions{Seed: 7}, false); strings.Contains(none, "x") {
		t.Errorf("with 0 percent some pulls fail: %s", none)
	}
}

func TestFailedPullsAreNotRememberedForEver(t *testing.T) {
	images := NewImages(ImageOptions{FailurePercent: 100})
	for i := range 3 * maxCounted {
		_, _ = images.PullImage(t.Context(), &runtimeapi.ImageSpec{Image: fmt.Sprint("image-", i)}, nil, nil)
	}
	if n := len(images.failures.failed); n > maxCounted {
		t.Errorf("%d images are remembered, want at most %d", n, maxCounted)
	}
}

func TestPullsOfAPodFailByItsAnnotation(t *testing.T) {
	images := NewImages(ImageOptions{})
	spec := &runtimeapi.ImageSpec{Image: "nginx:1"}
	for value, want := range map[string]codes.Code{"true": codes.NotFound, "false": codes.OK, "perhaps": codes.InvalidArgument} {
		pod := podConfig("p", map[string]string{ImagePullFailsAnnotation: value})
		if _, err := images.PullImage(t.Context(), spec, nil, pod); status.Code(err) != want {
			t.Errorf("%q: want %s, got %v", value, want, err)
		}
	}
}
