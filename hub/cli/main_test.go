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
	"github.com/hollowfleet/hollowfleet/hub/internal/hubtest"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

const (
	// patience is generous: no spec asserts a speed.
	patience = 2 * time.Minute
	glance   = 300 * time.Millisecond
)

var environment *testenv.Environment

func TestMain(m *testing.M) { testenv.Main(m, &environment) }

// run is one command line and what it left.
type run struct {
	code        int
	out, errOut string
}

type fixture struct {
	*WithT
	t      *testing.T
	client client.WithWatch
	// name is a cluster's, and a namespace's, that no other test has.
	name string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{WithT: NewWithT(t), t: t, client: hubtest.Client(t, environment), name: hubtest.Name()}
	f.writeLease(time.Now(), 24*60*60)
	return f
}

// hollow runs "kubectl hollow" against the API server. NAME in args is the fixture's name.
func (f *fixture) hollow(args string, more ...string) run {
	f.t.Helper()
	var out bytes.Buffer
	r := f.execute(f.t.Context(), &out, args, more...)
	r.out = out.String()
	return r
}

// hollowOn is hollow with a standard output of the test's, for a user who interrupts the command when ctx ends.
func (f *fixture) hollowOn(ctx context.Context, out io.Writer, args string) run {
	f.t.Helper()
	return f.execute(ctx, out, args)
}

func (f *fixture) execute(ctx context.Context, out io.Writer, args string, more ...string) run {
	f.t.Helper()
	var errOut bytes.Buffer
	line := append(strings.Fields(strings.ReplaceAll(args, "NAME", f.name)), more...)
	line = append(line, "--kubeconfig", environment.Cluster.AdminKubeconfig())
	code := cli.Execute(ctx, line, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: out, ErrOut: &errOut})
	return run{code: code, errOut: errOut.String()}
}

// succeeds runs a command that must end with exit code 0.
func (f *fixture) succeeds(args string, more ...string) string {
	f.t.Helper()
	r := f.hollow(args, more...)
	f.Expect(r.code).To(Equal(0), r.errOut)
	return r.out
}

// fails runs a command that must end with that exit code and say so.
func (f *fixture) fails(code int, says, args string, more ...string) {
	f.t.Helper()
	f.Expect(f.stops(code, says, args, more...)).To(BeEmpty(), "nothing is done")
}

// stops is fails for a command that has done something before, and returns what it said of that.
func (f *fixture) stops(code int, says, args string, more ...string) string {
	f.t.Helper()
	r := f.hollow(args, more...)
	f.Expect(r.errOut).To(ContainSubstring(says))
	f.Expect(r.code).To(Equal(code), r.errOut)
	return r.out
}

func (f *fixture) cluster() *v1alpha1.Cluster {
	f.t.Helper()
	cluster := &v1alpha1.Cluster{}
	f.Expect(f.client.Get(f.t.Context(), client.ObjectKey{Name: f.name}, cluster)).To(Succeed())
	return cluster
}

// namespace makes the cluster's, as the hub does.
func (f *fixture) namespace() {
	f.t.Helper()
	f.Expect(f.client.Create(f.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.name}})).To(Succeed())
}

// completes is what a shell offers after words, for what is typed of the next one.
func (f *fixture) completes(words, typed string) []string {
	f.t.Helper()
	var out bytes.Buffer
	line := append([]string{"__complete"}, strings.Fields(words)...)
	line = append(line, "--kubeconfig", environment.Cluster.AdminKubeconfig(), typed)
	cli.Execute(f.t.Context(), line, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &bytes.Buffer{}})
	offered := strings.Split(strings.TrimSpace(out.String()), "\n")
	return offered[:len(offered)-1] // The last line is a directive for the shell.
}
