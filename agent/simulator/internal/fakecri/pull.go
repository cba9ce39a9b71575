package fakecri

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// PullImage returns the ID of an image when it is there. One that is there already takes no time, and one that is being
// pulled is not pulled twice at a time. ctx ends a pull that takes time.
func (s *Images) PullImage(ctx context.Context, image *runtimeapi.ImageSpec, _ *runtimeapi.AuthConfig, pod *runtimeapi.PodSandboxConfig) (string, error) {
	name := image.GetImage()
	if name == "" {
		return "", status.Error(codes.InvalidArgument, "image.image: required")
	}
	fails, err := pullFails(pod.GetAnnotations())
	if err != nil {
		return "", status.Error(codes.InvalidArgument, err.Error())
	}
	if fails {
		return "", status.Errorf(codes.NotFound, "failed to pull and unpack image %q: scripted by annotation %s", name, ImagePullFailsAnnotation)
	}
	made := makeImage(name)
	if err := s.pullImage(ctx, made, name); err != nil {
		return "", err
	}
	return made.Id, nil
}

// pullImage returns when the image is there.
func (s *Images) pullImage(ctx context.Context, image *runtimeapi.Image, name string) error {
	for {
		there, other, err := s.beginPull(image, name)
		switch {
		case err != nil || there:
			return err
		case other == nil:
			return s.transferImage(ctx, image)
		}
		select {
		case <-other:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

// beginPull reports whether the image is there, and else which other pull of it to wait for: if there is none, the caller has
// to transfer it.
func (s *Images) beginPull(image *runtimeapi.Image, name string) (there bool, other <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.images[image.Id]; there {
		return true, nil, nil
	}
	if other, ok := s.pulling[image.Id]; ok {
		return false, other, nil
	}
	if s.failures.failsNext(name) {
		return false, nil, status.Errorf(codes.Unavailable,
			"failed to pull and unpack image %q: it is one of the %d%% of pulls that fail", name, s.failures.percent)
	}
	if s.link == nil {
		s.images[image.Id] = image
		return true, nil, nil
	}
	s.pulling[image.Id] = make(chan struct{})
	return false, nil, nil
}

// transferImage takes the time that the image's bytes take.
func (s *Images) transferImage(ctx context.Context, image *runtimeapi.Image) error {
	err := s.link.transferBytes(ctx, image.Size)
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.pulling[image.Id])
	delete(s.pulling, image.Id)
	if err != nil {
		return status.FromContextError(err).Err()
	}
	s.images[image.Id] = image
	return nil
}

// maxCounted bounds for how many images the failed pulls are counted.
const maxCounted = 1000

// failures decides which pulls fail.
type failures struct {
	percent int32
	seed    int64
	node    string
	// failed counts the failed pulls of images since their last one that succeeded.
	failed map[string]uint64
}

// failsNext reports whether the next pull of an image fails. It depends on nothing but seed, node, image and how often that has
// failed, so that it is the same in each run whatever the order of pulls.
func (f *failures) failsNext(image string) bool {
	if f.percent == 0 {
		return false
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %q %q %d", f.seed, f.node, image, f.failed[image]))
	if int32(binary.BigEndian.Uint64(sum[:])%100) >= f.percent {
		delete(f.failed, image)
		return false
	}
	if f.failed == nil || len(f.failed) >= maxCounted {
		f.failed = map[string]uint64{}
	}
	f.failed[image]++
	return true
}
