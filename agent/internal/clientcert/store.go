package clientcert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/internal/atomicfile"
)

// Names of the files, or of the keys of the Secret, of a Store.
const (
	privateKeyKey  = "tls.key"
	certificateKey = "tls.crt"
	tokenKey       = "token"
	kubeconfigKey  = "kubeconfig"
	// pendingKey is the key of a certificate request that is not answered yet. A restart continues with it.
	pendingKey = "pending.key"
)

// names is the order in which files are written: at whatever moment a process dies, the certificate that is there
// matches one of the keys that are there.
var names = []string{pendingKey, certificateKey, privateKeyKey, tokenKey, kubeconfigKey}

// Contents are what a Store holds, by name. A missing one is empty.
type Contents map[string][]byte

// Store keeps the agent's credential.
type Store interface {
	// Load returns what is stored; nothing if nothing is.
	Load(ctx context.Context) (Contents, error)
	// Save makes the store hold exactly contents.
	Save(ctx context.Context, contents Contents) error
	// String names the store in messages.
	String() string
}

// readCredential reads the credential of a cluster's agent; found is false if there is none at all.
func (c Contents) readCredential(cluster string) (read Credential, found bool, err error) {
	switch {
	case len(c[certificateKey]) > 0:
		read, err = fromCertificate(cluster, c[certificateKey], c[privateKeyKey])
		if err != nil && len(c[pendingKey]) > 0 {
			// The process died between writing the new certificate and moving its key.
			if other, pendingErr := fromCertificate(cluster, c[certificateKey], c[pendingKey]); pendingErr == nil {
				return other, true, nil
			}
		}
		return read, true, err
	case len(c[tokenKey]) > 0:
		read, err = fromToken(cluster, string(c[tokenKey]))
		return read, true, err
	}
	return Credential{}, false, nil
}

// Dir is a Store in a directory, for one process at a time.
type Dir struct{ path string }

// NewDir makes the directory if it is missing, readable by its owner only.
func NewDir(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("making the credential directory: %w", err)
	}
	return &Dir{path: path}, nil
}

func (d *Dir) String() string { return "directory " + d.path }

// Load implements Store.
func (d *Dir) Load(context.Context) (Contents, error) {
	contents := Contents{}
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(d.path, name))
		switch {
		case err == nil:
			contents[name] = content
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("reading the stored credential: %w", err)
		}
	}
	return contents, nil
}

// Save implements Store. Each file is replaced as a whole, and only if it differs; those that must go, go last.
func (d *Dir) Save(_ context.Context, contents Contents) error {
	for _, name := range names {
		if len(contents[name]) == 0 {
			continue
		}
		if err := d.writeFile(name, contents[name]); err != nil {
			return err
		}
	}
	for _, name := range names {
		if len(contents[name]) > 0 {
			continue
		}
		if err := os.Remove(filepath.Join(d.path, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing an old credential: %w", err)
		}
	}
	return nil
}

func (d *Dir) writeFile(name string, content []byte) error {
	path := filepath.Join(d.path, name)
	if known, err := os.ReadFile(path); err == nil && bytes.Equal(known, content) {
		return nil
	}
	if err := atomicfile.Write(path, content, 0o600); err != nil {
		return fmt.Errorf("storing the credential: %w", err)
	}
	return nil
}

const (
	lockFile   = "lock"
	holderFile = "holder"
	// bootIDFile has an ID that the kernel recreates with each boot of the machine.
	bootIDFile = "/proc/sys/kernel/random/boot_id"
	// maxPredecessors bounds how many processes are remembered that have not taken the Lease.
	maxPredecessors = 8
)

// ErrInUse says that another process uses the directory.
var ErrInUse = errors.New("another agent process uses it")

// Claim takes the directory for the process of that identity until release, or until the process has ended, however it
// ends. While another process has it, the error is ErrInUse.
//
// predecessors are the identities of the processes that had this very directory before. They are no more, because each of
// them held its lock, so the new process may continue with what they held, such as the agent's Lease. A copy of the directory
// has another lock file, and a copy of the whole disk is another boot: there the processes before may well be alive, and
// nothing is known of them.
func (d *Dir) Claim(identity string) (predecessors []string, release func(), err error) {
	file, err := os.OpenFile(filepath.Join(d.path, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("claiming the credential directory: %w", err)
	}
	release = func() { _ = file.Close() }
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		release()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrInUse
		}
		return nil, nil, fmt.Errorf("claiming the credential directory: %w", err)
	}
	place := placeOf(file)
	if predecessors, err = d.readPredecessors(place); err == nil {
		err = d.writeFile(holderFile, []byte(strings.Join(append([]string{place, identity}, predecessors...), "\n")+"\n"))
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	return predecessors, release, nil
}

// Disown makes the directory forget who had it. It is for a process that has found another one with its identity: its next
// start must not continue with what that one holds.
func (d *Dir) Disown() error {
	if err := os.Remove(filepath.Join(d.path, holderFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forgetting the agent's identity: %w", err)
	}
	return nil
}

// readPredecessors reads who had the directory at that place before, the last one first.
func (d *Dir) readPredecessors(place string) ([]string, error) {
	content, err := os.ReadFile(filepath.Join(d.path, holderFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the agent's identity: %w", err)
	}
	lines := strings.Fields(string(content))
	if place == "" || len(lines) == 0 || lines[0] != place {
		return nil, nil
	}
	return slices.Clip(lines[1:min(len(lines), 1+maxPredecessors)]), nil
}

// placeOf tells a lock file apart from its copies; it is empty where that cannot be done.
func placeOf(lock *os.File) string {
	boot, err := os.ReadFile(bootIDFile)
	if err != nil {
		return ""
	}
	info, err := lock.Stat()
	if err != nil {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s/%d/%d", strings.TrimSpace(string(boot)), stat.Dev, stat.Ino)
}

// Secret is a Store in a Secret of the workload cluster. Several agents of one cluster may share it.
type Secret struct {
	client client.Client
	key    client.ObjectKey
	// known is the Secret as it was last loaded or saved; nil if there was none.
	known *corev1.Secret
}

// NewSecret returns a Store in the Secret key.
func NewSecret(workload client.Client, key client.ObjectKey) *Secret {
	return &Secret{client: workload, key: key}
}

func (s *Secret) String() string { return "Secret " + s.key.String() }

// Load implements Store.
func (s *Secret) Load(ctx context.Context) (Contents, error) {
	contents := Contents{}
	secret := &corev1.Secret{}
	err := s.client.Get(ctx, s.key, secret)
	if apierrors.IsNotFound(err) {
		s.known = nil
		return contents, nil
	}
	if err != nil {
		return nil, requestError("get", s.String(), err)
	}
	s.known = secret
	for _, name := range names {
		if content := secret.Data[name]; len(content) > 0 {
			contents[name] = content
		}
	}
	return contents, nil
}

// Save implements Store. It writes all at once, and fails when another client has written since the last Load. What
// else stands in the Secret stays.
func (s *Secret) Save(ctx context.Context, contents Contents) error {
	next := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.key.Namespace, Name: s.key.Name}}
	if s.known != nil {
		next = s.known.DeepCopy()
	}
	data := map[string][]byte{}
	maps.Copy(data, next.Data)
	for _, name := range names {
		delete(data, name)
		if len(contents[name]) > 0 {
			data[name] = contents[name]
		}
	}
	var err error
	switch {
	case s.known == nil:
		next.Data = data
		err = requestError("create", s.String(), s.client.Create(ctx, next))
	case !maps.EqualFunc(data, next.Data, bytes.Equal):
		next.Data = data
		err = requestError("update", s.String(), s.client.Update(ctx, next))
	}
	if err != nil {
		return err
	}
	s.known = next
	return nil
}
