package fakecri

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"sync"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"
)

// imageUser is the user of every image, as of one that is built for pods that must not run as root. A pod that
// names a user, root included, has that one.
const imageUser = 65532

const (
	smallestImage = 5 << 20
	imageSpread   = 200 << 20
)

// ImageOptions describe an image service.
type ImageOptions struct {
	// Mountpoint is the directory whose filesystem counts as the images' one.
	Mountpoint string
	// BytesPerSecond is how fast all pulls together are. With 0 they take no time.
	BytesPerSecond int64
	// FailurePercent is how many of 100 pulls fail. Seed and Node decide which.
	FailurePercent int32
	Seed           int64
	Node           string
	// Clock defaults to the real one.
	Clock clock.Clock
}

// Images is the image service. An image that was pulled is remembered by name with a size made up from that name, the
// same on every node. Its methods may be called concurrently.
type Images struct {
	mountpoint string
	// link is nil if pulls take no time.
	link *link

	mu       sync.Mutex
	images   map[string]*runtimeapi.Image
	failures failures
	// pulling has what is closed when the pull of an image that is under way ends, by the image's ID.
	pulling map[string]chan struct{}
}

var _ internalapi.ImageManagerService = &Images{}

// NewImages returns an image service without images.
func NewImages(options ImageOptions) *Images {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	made := &Images{
		mountpoint: options.Mountpoint,
		images:     map[string]*runtimeapi.Image{},
		failures:   failures{percent: options.FailurePercent, seed: options.Seed, node: options.Node},
		pulling:    map[string]chan struct{}{},
	}
	if options.BytesPerSecond > 0 {
		made.link = newLink(options.BytesPerSecond, options.Clock)
	}
	return made
}

func makeImage(name string) *runtimeapi.Image {
	sum := sha256.Sum256([]byte(name))
	digest := "sha256:" + hex.EncodeToString(sum[:])
	image := &runtimeapi.Image{
		Id:   digest,
		Size: smallestImage + binary.BigEndian.Uint64(sum[:])%imageSpread,
		Spec: &runtimeapi.ImageSpec{Image: name, UserSpecifiedImage: name},
		// Without a user the kubelet takes the image's for root, and starts no container that must not be.
		Uid: &runtimeapi.Int64Value{Value: imageUser},
	}
	if repository, _, pinned := strings.Cut(name, "@"); pinned {
		image.RepoDigests = []string{name}
		image.Spec.Image = repository
	} else {
		image.RepoTags = []string{name}
		image.RepoDigests = []string{repositoryOf(name) + "@" + digest}
	}
	return image
}

// repositoryOf cuts the tag off an image's name.
func repositoryOf(name string) string {
	if colon := strings.LastIndexByte(name, ':'); colon > strings.LastIndexByte(name, '/') {
		return name[:colon]
	}
	return name
}

// ImageStatus returns the image with the given ID or name; one that was not pulled gives no image and no
// error.
func (s *Images) ImageStatus(_ context.Context, image *runtimeapi.ImageSpec, _ bool) (*runtimeapi.ImageStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &runtimeapi.ImageStatusResponse{Image: s.findImage(image.GetImage())}, nil
}

// ListImages lists every image, or the one that the filter names.
func (s *Images) ListImages(_ context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name := filter.GetImage().GetImage(); name != "" {
		if image := s.findImage(name); image != nil {
			return []*runtimeapi.Image{image}, nil
		}
		return nil, nil
	}
	images := make([]*runtimeapi.Image, 0, len(s.images))
	for _, image := range s.images {
		images = append(images, image)
	}
	return images, nil
}

// RemoveImage forgets an image. Removing what is gone is no error.
func (s *Images) RemoveImage(_ context.Context, image *runtimeapi.ImageSpec) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.findImage(image.GetImage()); found != nil {
		delete(s.images, found.Id)
	}
	return nil
}

// ImageFsInfo reports the made-up sizes of all images together.
func (s *Images) ImageFsInfo(context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	usage := &runtimeapi.FilesystemUsage{
		Timestamp:  clock.RealClock{}.Now().UnixNano(),
		FsId:       &runtimeapi.FilesystemIdentifier{Mountpoint: s.mountpoint},
		UsedBytes:  &runtimeapi.UInt64Value{Value: s.UsedBytes()},
		InodesUsed: &runtimeapi.UInt64Value{},
	}
	return &runtimeapi.ImageFsInfoResponse{
		ImageFilesystems:     []*runtimeapi.FilesystemUsage{usage},
		ContainerFilesystems: []*runtimeapi.FilesystemUsage{usage},
	}, nil
}

// UsedBytes is the made-up size of all images together.
func (s *Images) UsedBytes() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var used uint64
	for _, image := range s.images {
		used += image.Size
	}
	return used
}

// Close does nothing: there is no connection.
func (s *Images) Close(context.Context) error { return nil }

// findImage looks an image up by ID or name. The caller holds the lock.
func (s *Images) findImage(name string) *runtimeapi.Image {
	if image, ok := s.images[name]; ok {
		return image
	}
	sum := sha256.Sum256([]byte(name))
	return s.images["sha256:"+hex.EncodeToString(sum[:])]
}
