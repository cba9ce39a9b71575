package volume

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/poddir"
)

type stored struct {
	secrets    map[string]map[string][]byte
	configMaps map[string]map[string]string
}

func (s stored) GetSecret(_, name string) (*corev1.Secret, error) {
	if data, found := s.secrets[name]; found {
		return &corev1.Secret{Data: data}, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
}

func (s stored) GetConfigMap(_, name string) (*corev1.ConfigMap, error) {
	if data, found := s.configMaps[name]; found {
		return &corev1.ConfigMap{Data: data}, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), name)
}

type tokens struct{}

func (tokens) GetServiceAccountToken(namespace, name string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	response := request.DeepCopy()
	response.Status.Token = strings.Join([]string{namespace, name, string(request.Spec.BoundObjectRef.UID), strings.Join(request.Spec.Audiences, "+")}, "/")
	return response, nil
}

func newManager(t *testing.T) (*Manager, stored) {
	t.Helper()
	objects := stored{
		secrets:    map[string]map[string][]byte{"s": {"a": []byte("one"), "b": []byte("two")}},
		configMaps: map[string]map[string]string{"c": {"k": "map"}},
	}
	base := filepath.Join(t.TempDir(), insideName)
	must(t, takeInside(base))
	return &Manager{Base: base, Objects: objects, Tokens: tokens{}}, objects
}

func podWith(volumes ...corev1.Volume) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "uid", Labels: map[string]string{"app": "x"}},
		Spec:       corev1.PodSpec{ServiceAccountName: "sa", Volumes: volumes},
	}
}

func secret(source corev1.SecretVolumeSource) corev1.Volume {
	return corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &source}}
}

// content reads the visible files of the volume v, with their modes.
func content(t *testing.T, m *Manager) map[string]string {
	t.Helper()
	files := make(map[string]string)
	root := m.volumeDirectory("uid", "v")
	var read func(string)
	read = func(directory string) {
		entries, err := os.ReadDir(directory)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			path := filepath.Join(directory, entry.Name())
			if strings.HasPrefix(entry.Name(), "..") {
				continue
			}
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if info.IsDir() {
				read(path)
				continue
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			name, _ := filepath.Rel(root, path)
			files[name] = info.Mode().String() + " " + string(text)
		}
	}
	read(root)
	return files
}

func expect(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: the files are %q, want %q", what, got, want)
		return
	}
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s: %s is %q, want %q", what, name, got[name], want[name])
		}
	}
}

func TestContent(t *testing.T) {
	for name, test := range map[string]struct {
		volume corev1.VolumeSource
		want   map[string]string
	}{
		"secret": {
			corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}},
			map[string]string{"a": "-r--r--r-- one", "b": "-r--r--r-- two"},
		},
		"secret, items and modes": {
			corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s", DefaultMode: ptr.To[int32](0o400), Items: []corev1.KeyToPath{
				{Key: "a", Path: "dir/x"}, {Key: "b", Path: "y", Mode: ptr.To[int32](0o440)},
			}}},
			map[string]string{"dir/x": "-r-------- one", "y": "-r--r----- two"},
		},
		"secret, modes that let write": {
			corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s", DefaultMode: ptr.To[int32](0o666), Items: []corev1.KeyToPath{
				{Key: "a", Path: "a"}, {Key: "b", Path: "b", Mode: ptr.To[int32](0o777)},
			}}},
			map[string]string{"a": "-r--r--r-- one", "b": "-r-xr-xr-x two"},
		},
		"secret, optional and missing": {
			corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "missing", Optional: ptr.To(true)}},
			map[string]string{},
		},
		"configMap": {
			corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}},
			map[string]string{"k": "-r--r--r-- map"},
		},
		"downwardAPI": {
			corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.labels"}},
			}}},
			map[string]string{"labels": `-r--r--r-- app="x"`},
		},
		"projected": {
			corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Items: []corev1.KeyToPath{{Key: "a", Path: "x"}}}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}},
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "aud", Path: "token"}},
			}}},
			map[string]string{"x": "-r--r--r-- one", "k": "-r--r--r-- map", "token": "-r-------- ns/sa/uid/aud"},
		},
		"emptyDir": {corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, map[string]string{}},
	} {
		m, _ := newManager(t)
		if err := m.Prepare(podWith(corev1.Volume{Name: "v", VolumeSource: test.volume}), Owner{}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		expect(t, name, content(t, m), test.want)
	}
}

func TestMissingSourcesAreNamed(t *testing.T) {
	for want, source := range map[string]corev1.SecretVolumeSource{
		"missing": {SecretName: "missing"},
		"no-key":  {SecretName: "s", Items: []corev1.KeyToPath{{Key: "no-key", Path: "x"}}},
	} {
		m, _ := newManager(t)
		err := m.Prepare(podWith(secret(source)), Owner{})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "volume v") {
			t.Errorf("the error is %v", err)
		}
	}
}

func TestRefreshReplacesContentAtomically(t *testing.T) {
	m, objects := newManager(t)
	pod := podWith(secret(corev1.SecretVolumeSource{SecretName: "s"}))
	if err := m.Prepare(pod, Owner{}); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(m.volumeDirectory("uid", "v"), "..data")
	before, _ := os.Readlink(link)
	if err := m.Refresh(pod, Owner{}); err != nil {
		t.Fatal(err)
	}
	if same, _ := os.Readlink(link); same != before {
		t.Error("unchanged content was written again")
	}
	objects.secrets["s"] = map[string][]byte{"a": []byte("new"), "c": []byte("three")}
	if err := m.Refresh(pod, Owner{}); err != nil {
		t.Fatal(err)
	}
	expect(t, "after the change", content(t, m), map[string]string{"a": "-r--r--r-- new", "c": "-r--r--r-- three"})
	if after, _ := os.Readlink(link); after == before {
		t.Error("the content was not swapped as a whole")
	}
	delete(objects.secrets, "s")
	if err := m.Refresh(pod, Owner{}); err == nil {
		t.Error("a missing Secret was not reported")
	}
	expect(t, "while the Secret is missing", content(t, m), map[string]string{"a": "-r--r--r-- new", "c": "-r--r--r-- three"})
}

func TestEmptyDirSurvivesAndIsRemoved(t *testing.T) {
	m, _ := newManager(t)
	pod := podWith(corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	pod.UID = podUID
	pod.Spec.Containers = []corev1.Container{{VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/a", SubPath: "sub/dir"}}}}
	if err := m.Prepare(pod, Owner{}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(m.Directories(pod, &pod.Spec.Containers[0])["/a"], "file")
	if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := m.Prepare(pod, Owner{}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "kept" {
		t.Errorf("the file has %q (%v)", text, err)
	}
	if uids, _, err := poddir.List(m.Base); err != nil || len(uids) != 1 || uids[0] != podUID {
		t.Errorf("the pods with directories are %v (%v)", uids, err)
	}
	if err := m.Remove(podUID); err != nil {
		t.Fatal(err)
	}
	if uids, _, err := poddir.List(m.Base); err != nil || len(uids) != 0 {
		t.Errorf("the pods with directories are %v (%v)", uids, err)
	}
}

// A container must not be able to make the podhost write elsewhere.
func TestSubPathDoesNotFollowLinksOut(t *testing.T) {
	m, _ := newManager(t)
	outside := t.TempDir()
	pod := podWith(corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	if err := m.Prepare(pod, Owner{}); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(m.volumeDirectory("uid", "v"), "link")); err != nil {
		t.Fatal(err)
	}
	pod.Spec.Containers = []corev1.Container{{VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/a", SubPath: "link/made"}}}}
	if err := m.Prepare(pod, Owner{}); err == nil {
		t.Error("a link out of the volume was followed")
	}
	if _, err := os.Stat(filepath.Join(outside, "made")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("outside there is: %v", err)
	}
}

// The user may write to an emptyDir, and read what is in the other volumes.
func TestFilesOfAnotherUser(t *testing.T) {
	requireRoot(t)
	m, _ := newManager(t)
	pod := podWith(
		secret(corev1.SecretVolumeSource{SecretName: "s", DefaultMode: ptr.To[int32](0o600), Items: []corev1.KeyToPath{
			{Key: "a", Path: "dir/a"}, {Key: "b", Path: "b", Mode: ptr.To[int32](0o744)},
		}}),
		corev1.Volume{Name: "e", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	if err := m.Prepare(pod, Owner{Change: true, UID: 65532, GID: 65531}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]struct {
		uid, gid uint32
		mode     os.FileMode
	}{
		filepath.Join(m.volumeDirectory("uid", "v"), "dir", "a"): {0, 65531, 0o440},
		filepath.Join(m.volumeDirectory("uid", "v"), "b"):        {0, 65531, 0o554},
		m.volumeDirectory("uid", "e"):                            {65532, 65531, 0o700},
		m.Scratch("uid"):                                         {65532, 65531, 0o700},
		// What leads there is not the user's to change.
		filepath.Join(m.volumeDirectory("uid", "v"), "dir"):    {0, 65531, 0o755},
		filepath.Join(m.volumeDirectory("uid", "v"), "..data"): {0, 65531, 0o755},
		m.volumeDirectory("uid", "v"):                          {0, 65531, 0o750},
		filepath.Dir(m.volumeDirectory("uid", "v")):            {0, 65531, 0o750},
		m.podDirectory("uid"):                                  {0, 65531, 0o750},
	} {
		info, err := os.Stat(path)
		if err != nil {
			t.Error(err)
			continue
		}
		status := info.Sys().(*syscall.Stat_t)
		if status.Uid != want.uid || status.Gid != want.gid || info.Mode().Perm() != want.mode {
			t.Errorf("%s belongs to %d:%d with mode %o, want %+v", path, status.Uid, status.Gid, info.Mode().Perm(), want)
		}
	}
}

func requireRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
}

// Containers that run as different users share what they write.
func TestFilesOfSeveralUsers(t *testing.T) {
	m, _ := newManager(t)
	pod := podWith(secret(corev1.SecretVolumeSource{SecretName: "s"}),
		corev1.Volume{Name: "e", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	if err := m.Prepare(pod, Owner{Shared: true}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{
		m.volumeDirectory("uid", "e"): os.ModeDir | os.ModeSticky | 0o777,
		m.Scratch("uid"):              os.ModeDir | os.ModeSticky | 0o777,
		m.volumeDirectory("uid", "v"): os.ModeDir | 0o711,
		m.podDirectory("uid"):         os.ModeDir | 0o711,
	} {
		info, err := os.Stat(path)
		if err != nil {
			t.Error(err)
		} else if info.Mode() != want {
			t.Errorf("the mode of %s is %s, want %s", path, info.Mode(), want)
		}
	}
}
