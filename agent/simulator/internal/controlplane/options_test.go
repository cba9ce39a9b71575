package controlplane

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	port := func(p int) *int { return &p }
	for name, test := range map[string]struct {
		options Options
		// want is part of the error, empty for none.
		want string
	}{
		"least":                  {Options{DataDir: "d"}, ""},
		"no data directory":      {Options{}, "--data-dir"},
		"capital name":           {Options{DataDir: "d", Name: "C1"}, "--name"},
		"long name":              {Options{DataDir: "d", Name: strings.Repeat("a", 46)}, "at most 45"},
		"longest name":           {Options{DataDir: "d", Name: strings.Repeat("a", 45)}, ""},
		"port too high":          {Options{DataDir: "d", APIServerPort: port(65536)}, "--apiserver-port"},
		"port negative":          {Options{DataDir: "d", APIServerPort: port(-1)}, "--apiserver-port"},
		"all interfaces":         {Options{DataDir: "d", Listen: netip.IPv4Unspecified()}, ""},
		"multicast":              {Options{DataDir: "d", Listen: netip.MustParseAddr("224.0.0.1")}, "--listen"},
		"serving names":          {Options{DataDir: "d", ServingNames: []string{"c7.fleet.svc", "192.0.2.1"}}, ""},
		"bad serving name":       {Options{DataDir: "d", ServingNames: []string{"c7_fleet"}}, `--serving-name="c7_fleet"`},
		"names without a use":    {Options{DataDir: "d", ServingNames: []string{"c7"}, PKIDir: "p"}, "--serving-name is of no use with --pki-dir"},
		"unknown component":      {Options{DataDir: "d", Components: []string{"kubelet"}}, "kubelet"},
		"API server alone":       {Options{DataDir: "d", Components: []string{APIServer}}, "etcd"},
		"scheduler without API":  {Options{DataDir: "d", Components: []string{Etcd, Scheduler}}, "kube-apiserver"},
		"hub":                    {Options{DataDir: "d", Components: []string{Etcd, APIServer, ControllerManager}}, ""},
		"bad node name":          {Options{DataDir: "d", PodhostNode: "a_b"}, "--podhost-node-name"},
		"flag without value":     {Options{DataDir: "d", ExtraArgs: map[string][]string{Etcd: {"debug"}}}, "key=value"},
		"flag without a name":    {Options{DataDir: "d", ExtraArgs: map[string][]string{Etcd: {"=1"}}}, "key=value"},
		"flag with empty value":  {Options{DataDir: "d", ExtraArgs: map[string][]string{Etcd: {"a="}}}, ""},
		"two versions":           {Options{DataDir: "d", EmulatedVersion: "1.36", EmulatedVersionFile: "f"}, "leave one of them out"},
		"address with interface": {Options{DataDir: "d", Listen: netip.MustParseAddr("fe80::1%eth0")}, "--listen"},
	} {
		err := test.options.Validate()
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.want != "" && (!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: got %v, want ErrInvalid with %q", name, err, test.want)
		}
	}
}

// A control plane starts with what it has run last, and never with an earlier version.
func TestAStartContinuesWithTheRecordedVersions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "version")
	if err := os.WriteFile(file, []byte("1.36\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	of := func(server, controllerManager, scheduler string) map[string]string {
		return map[string]string{APIServer: server, ControllerManager: controllerManager, Scheduler: scheduler}
	}
	for name, test := range map[string]struct {
		options  Options
		recorded map[string]string
		want     map[string]string
		problem  string
	}{
		"first start":        {Options{EmulatedVersionFile: file}, nil, of("1.36", "1.36", "1.36"), ""},
		"without a file":     {Options{EmulatedVersion: "1.35"}, of("1.36", "1.36", "1.36"), of("1.35", "1.35", "1.35"), ""},
		"an earlier record":  {Options{EmulatedVersionFile: file}, of("1.35", "1.35", "1.35"), of("1.35", "1.35", "1.35"), ""},
		"a later record":     {Options{EmulatedVersionFile: file}, of(codeMinor(), "1.36", "1.36"), of("", "1.36", "1.36"), ""},
		"the file is gone":   {Options{EmulatedVersionFile: file + ".gone"}, of("1.35", "1.35", "1.35"), of("1.35", "1.35", "1.35"), ""},
		"gone at first":      {Options{EmulatedVersionFile: file + ".gone"}, nil, nil, "--emulated-version-file"},
		"of a later program": {Options{EmulatedVersionFile: file}, of("1.99", "1.36", "1.36"), nil, "start it with the later program"},
		"a broken record":    {Options{EmulatedVersionFile: file}, of("1.36", "", "1.36"), nil, "kube-controller-manager"},
	} {
		got, err := test.options.chooseMinors(test.recorded)
		switch {
		case test.problem != "" && (!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), test.problem)):
			t.Errorf("%s: got %v, want ErrInvalid with %q", name, err, test.problem)
		case test.problem == "" && (err != nil || !maps.Equal(got, test.want)):
			t.Errorf("%s: got %v, %v, want %v", name, got, err, test.want)
		}
	}
}

func TestMergeFlags(t *testing.T) {
	base := []string{"a=1", "b=2", "c=3"}
	for name, test := range map[string]struct{ extra, want []string }{
		"none":             {nil, []string{"--a=1", "--b=2", "--c=3"}},
		"replaces":         {[]string{"b=4"}, []string{"--a=1", "--c=3", "--b=4"}},
		"adds":             {[]string{"d=4"}, []string{"--a=1", "--b=2", "--c=3", "--d=4"}},
		"dashes":           {[]string{"--b=4"}, []string{"--a=1", "--c=3", "--b=4"}},
		"repeated":         {[]string{"d=4", "d=5"}, []string{"--a=1", "--b=2", "--c=3", "--d=4", "--d=5"}},
		"value with equal": {[]string{"b=x=y"}, []string{"--a=1", "--c=3", "--b=x=y"}},
	} {
		if got := mergeFlags(base, test.extra); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

// No component but the admin's kubeconfig may have the group that is above all
// rules, and no process but the controller manager gets the authority's key.
func TestFlagsKeepSecretsApart(t *testing.T) {
	layout, err := NewLayout("/data")
	if err != nil {
		t.Fatal(err)
	}
	source := flagSource{layout: layout, cluster: state{Name: "c", Listen: "127.0.0.1", APIServerPort: 1}, runDir: "/run", ports: map[string]int{}}
	for _, component := range AllComponents {
		for _, flag := range source.commandLine(component, "", nil) {
			if strings.Contains(flag, "admin") {
				t.Errorf("%s has %s", component, flag)
			}
			if strings.HasSuffix(flag, "ca.key") && component != ControllerManager {
				t.Errorf("%s has %s", component, flag)
			}
		}
	}
}

// TestAggregation wants what metrics-server and autoscalers need of a cluster that is told to, and of no other: it costs inotify instances.
func TestAggregation(t *testing.T) {
	layout, err := NewLayout("/data")
	if err != nil {
		t.Fatal(err)
	}
	for _, on := range []bool{false, true} {
		source := flagSource{layout: layout, cluster: state{Name: "c", Listen: "127.0.0.1"}, ports: map[string]int{}, aggregation: on}
		server, manager := strings.Join(source.commandLine(APIServer, "", nil), " "), strings.Join(source.commandLine(ControllerManager, "", nil), " ")
		if strings.Contains(server, "--requestheader-client-ca-file=/data/pki/front-proxy-ca.crt") != on || strings.Contains(server, "--proxy-client-key-file=/data/pki/front-proxy-client.key") != on ||
			strings.Contains(manager, "horizontal-pod-autoscaler-controller") != on {
			t.Errorf("aggregation %t: %s\n%s", on, server, manager)
		}
	}
	options := Options{Name: "c1", DataDir: "d", Aggregation: true, PKIDir: "/pki"}
	if err := options.Validate(); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "--aggregation") {
		t.Errorf("with certificates of another program: %v", err)
	}
}

func TestAdoptState(t *testing.T) {
	for name, test := range map[string]struct {
		recorded *state
		options  Options
		wantName string
		wantNode string
		wantErr  string
	}{
		"first start":             {nil, Options{Name: "c1"}, "c1", "", ""},
		"first start, no name":    {nil, Options{}, "", "", "--name"},
		"later start":             {&state{Name: "c1"}, Options{}, "c1", "", ""},
		"later start, same name":  {&state{Name: "c1"}, Options{Name: "c1"}, "c1", "", ""},
		"later start, other PKI":  {&state{Name: "c1", APIServerPort: 1}, Options{PKIDir: "/pki"}, "", "", "--pki-dir"},
		"later start, other name": {&state{Name: "c1"}, Options{Name: "c2"}, "", "", `holds the cluster "c1"`},
		"podhost":                 {nil, Options{Name: "c1", Components: []string{Podhost}}, "c1", "c1-podhost", ""},
		"named podhost":           {nil, Options{Name: "c1", Components: []string{Podhost}, PodhostNode: "n"}, "c1", "n", ""},
		"node name, no podhost":   {nil, Options{Name: "c1", PodhostNode: "n"}, "c1", "", ""},
	} {
		layout, err := NewLayout(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if test.recorded != nil {
			if err := writeJSON(layout.stateFile(), test.recorded); err != nil {
				t.Fatal(err)
			}
		}
		test.options.Listen = loopback
		got, err := test.options.adoptState(layout)
		if test.wantErr != "" {
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("%s: got %v, want ErrInvalid with %q", name, err, test.wantErr)
			}
			continue
		}
		if err != nil || got.Name != test.wantName || test.options.PodhostNode != test.wantNode {
			t.Errorf("%s: name %q, node %q, error %v; want %q and %q", name, got.Name, test.options.PodhostNode, err, test.wantName, test.wantNode)
		}
	}
}

// The controller manager does not start with Nodes whose pod CIDR is not within the cluster's.
// Edge case: The pod CIDR was companies'.
func TestThePodCIDRStays(t *testing.T) {
	for name, test := range map[string]struct {
		recorded *state
		want     string
	}{
		"first start":                       {nil, clusterCIDR},
		"made before the CIDR was recorded": {&state{Name: "c1"}, "10.0.0.0/8"},
		"recorded":                          {&state{Name: "c1", PodCIDR: "172.16.0.0/12"}, "172.16.0.0/12"},
	} {
		layout, err := NewLayout(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if test.recorded != nil {
			if err := writeJSON(layout.stateFile(), test.recorded); err != nil {
				t.Fatal(err)
			}
		}
		cluster, err := (&Options{Name: "c1", Listen: loopback}).adoptState(layout)
		if err != nil || cluster.PodCIDR != test.want {
			t.Errorf("%s: the pod CIDR is %q (%v), want %s", name, cluster.PodCIDR, err, test.want)
		}
		flags := flagSource{layout: layout, cluster: cluster, ports: map[string]int{}}.commandLine(ControllerManager, "", nil)
		if !slices.Contains(flags, "--cluster-cidr="+test.want) {
			t.Errorf("%s: the controller manager does not get --cluster-cidr=%s", name, test.want)
		}
	}
}

func TestLockIsExclusiveAndNamesItsHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if _, err := findHolder(context.Background(), path); !errors.Is(err, ErrNotRunning) {
		t.Errorf("without a lock file: %v, want ErrNotRunning", err)
	}
	held, err := acquireLock(path, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := acquireLock(path, ""); !errors.Is(err, ErrInUse) {
		t.Errorf("second lock: %v, want ErrInUse", err)
	}
	found, err := findHolder(context.Background(), path)
	if err != nil || found.PID != os.Getpid() {
		t.Errorf("holder %+v (%v), want process %d", found, err, os.Getpid())
	}
	held.releaseLock()
	if _, err := findHolder(context.Background(), path); !errors.Is(err, ErrNotRunning) {
		t.Errorf("after the release: %v, want ErrNotRunning", err)
	}
}

// A process id that was given to another process must never be taken for the
// supervisor.
func TestHolderWithAnotherStartTimeIsNotTrusted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held, err := acquireLock(path, "")
	if err != nil {
		t.Fatal(err)
	}
	defer held.releaseLock()
	if err := os.WriteFile(path, []byte(`{"pid":1,"startTicks":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if found, err := findHolder(context.Background(), path); err == nil {
		t.Errorf("trusted %+v", found)
	}
}

func TestRunDir(t *testing.T) {
	for name, test := range map[string]struct {
		sub    string
		inside bool
	}{
		"short path": {"d", true},
		"long path":  {strings.Repeat("d", 120), false},
	} {
		layout, err := NewLayout(filepath.Join(t.TempDir(), test.sub))
		if err != nil {
			t.Fatal(err)
		}
		if err := layout.makeDirectories(); err != nil {
			t.Fatal(err)
		}
		dir, err := layout.prepareRunDir()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if inside := strings.HasPrefix(dir, layout.Root()); inside != test.inside {
			t.Errorf("%s: %s is in the data directory: %t, want %t", name, dir, inside, test.inside)
		}
		if found, err := layout.findRunDir(); err != nil || found != dir {
			t.Errorf("%s: found %s (%v), want %s", name, found, err, dir)
		}
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o700 {
			t.Errorf("%s: mode %o, want 700", name, info.Mode().Perm())
		}
		// A supervisor that was killed leaves it behind; the next start
		// removes it.
		next, err := layout.prepareRunDir()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(dir); !test.inside && err == nil {
			t.Errorf("%s: %s was left behind", name, dir)
		}
		layout.removeRunDir()
		if _, err := os.Stat(next); err == nil {
			t.Errorf("%s: %s was not removed", name, next)
		}
	}
}

func TestForeignRunDirIsLeftAlone(t *testing.T) {
	layout, err := NewLayout(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	precious := filepath.Join(t.TempDir(), "precious")
	link := filepath.Join(t.TempDir(), runDirPrefix+"link")
	if err := errors.Join(os.Mkdir(precious, 0o700), os.Symlink(precious, link)); err != nil {
		t.Fatal(err)
	}
	for _, recorded := range []string{precious, link, "relative"} {
		if err := writeFile(layout.runDirPointer(), []byte(recorded)); err != nil {
			t.Fatal(err)
		}
		layout.removeRunDir()
		if _, err := os.Stat(precious); err != nil {
			t.Fatalf("with %q recorded the directory was removed", recorded)
		}
	}
}
