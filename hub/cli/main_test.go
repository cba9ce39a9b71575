package cli_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

const (
	// patience is generous: no spec asserts a speed.
	patience = 2 * time.Minute
	glance   = 300 * time.Millisecond
)

func TestMain(m *testing.M) { testenv.Main(m) }

// run is one command line and what it left.
type run struct {
	code        int
	out, errOut string
}

// env is a user of the package's hub.
type env struct {
	*testenv.Env
	// name is a cluster's, and a namespace's, that no other test has.
	name string
}

func newEnv(t *testing.T) *env {
	t.Helper()
	f := &env{Env: testenv.NewEnv(t), name: testenv.Name()}
	f.letHubWork()
	return f
}

// hollow runs "kubectl hollow" against the API server. NAME in args is the env's name.
func (f *env) hollow(args string, more ...string) run {
	f.T.Helper()
	var out bytes.Buffer
	r := f.execute(f.T.Context(), &out, args, more...)
	r.out = out.String()
	return r
}

// hollowOn is hollow with a standard output of the test's, for a user who interrupts the command when ctx ends.
func (f *env) hollowOn(ctx context.Context, out io.Writer, args string) run {
	f.T.Helper()
	return f.execute(ctx, out, args)
}

func (f *env) execute(ctx context.Context, out io.Writer, args string, more ...string) run {
	f.T.Helper()
	var errOut bytes.Buffer
	line := append(strings.Fields(strings.ReplaceAll(args, "NAME", f.name)), more...)
	line = append(line, "--kubeconfig", testenv.Server().Cluster.AdminKubeconfig())
	code := cli.Execute(ctx, line, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: out, ErrOut: &errOut})
	return run{code: code, errOut: errOut.String()}
}

// succeeds runs a command that must end with exit code 0.
func (f *env) succeeds(args string, more ...string) string {
	f.T.Helper()
	r := f.hollow(args, more...)
	f.Expect(r.code).To(Equal(0), r.errOut)
	return r.out
}

// fails runs a command that must end with that exit code and say so.
func (f *env) fails(code int, says, args string, more ...string) {
	f.T.Helper()
	f.Expect(f.stops(code, says, args, more...)).To(BeEmpty(), "nothing is done")
}

// stops is fails for a command that has done something before, and returns what it said of that.
func (f *env) stops(code int, says, args string, more ...string) string {
	f.T.Helper()
	r := f.hollow(args, more...)
	f.Expect(r.errOut).To(ContainSubstring(says))
	f.Expect(r.code).To(Equal(code), r.errOut)
	return r.out
}

func (f *env) cluster() *v1alpha1.Cluster {
	f.T.Helper()
	cluster := &v1alpha1.Cluster{}
	f.Expect(f.Client.Get(f.T.Context(), client.ObjectKey{Name: f.name}, cluster)).To(Succeed())
	return cluster
}

// namespace makes the cluster's, as the hub does.
func (f *env) namespace() {
	f.T.Helper()
	f.ExpectApplied(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.name}})
}

// completes is what a shell offers after words, for what is typed of the next one.
func (f *env) completes(words, typed string) []string {
	f.T.Helper()
	var out bytes.Buffer
	line := append([]string{"__complete"}, strings.Fields(words)...)
	line = append(line, "--kubeconfig", testenv.Server().Cluster.AdminKubeconfig(), typed)
	cli.Execute(f.T.Context(), line, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &bytes.Buffer{}})
	offered := strings.Split(strings.TrimSpace(out.String()), "\n")
	return offered[:len(offered)-1] // The last line is a directive for the shell.
}
