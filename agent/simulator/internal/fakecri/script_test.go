package fakecri

import (
	"errors"
	"strings"
	"testing"
	"time"

	utilexec "k8s.io/utils/exec"
)

func TestProbesFollowTheAnnotations(t *testing.T) {
	annotations := map[string]string{
		StartedAfterAnnotation: "2s", ReadyAfterAnnotation: "5s", ReadinessFailsAfterAnnotation: "20s", LivenessFailsAfterAnnotation: "30s",
	}
	for name, test := range map[string]struct {
		role        Role
		annotations map[string]string
		probe       Probe
		after       time.Duration
		cause       string
	}{
		"without annotations":     {MainContainer, nil, ReadinessProbe, 0, ""},
		"not started yet":         {MainContainer, annotations, StartupProbe, time.Second, StartedAfterAnnotation},
		"started":                 {MainContainer, annotations, StartupProbe, 2 * time.Second, ""},
		"not ready yet":           {MainContainer, annotations, ReadinessProbe, 4 * time.Second, ReadyAfterAnnotation},
		"ready":                   {MainContainer, annotations, ReadinessProbe, 5 * time.Second, ""},
		"not ready any more":      {MainContainer, annotations, ReadinessProbe, 20 * time.Second, ReadinessFailsAfterAnnotation},
		"alive":                   {MainContainer, annotations, LivenessProbe, 29 * time.Second, ""},
		"not alive any more":      {MainContainer, annotations, LivenessProbe, 30 * time.Second, LivenessFailsAfterAnnotation},
		"sidecars are not meant":  {Sidecar, annotations, LivenessProbe, time.Hour, ""},
		"a command is no probe":   {MainContainer, annotations, "true", time.Hour, ""},
		"ready at once, if asked": {MainContainer, map[string]string{ReadyAfterAnnotation: "0s"}, ReadinessProbe, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t, Options{RoleOf: func(string, string, string) Role { return test.role }})
			f.setCIDR("10.1.0.0/24")
			config := podConfig("p", test.annotations)
			id := f.start(f.run(config), "c", config)
			f.advance(test.after)
			output, _, err := f.ExecSync(t.Context(), id, test.probe.Command(), time.Second)
			var exit utilexec.ExitError
			switch {
			case test.cause == "" && err != nil:
				t.Errorf("the probe fails: %v", err)
			case test.cause != "" && (!errors.As(err, &exit) || exit.ExitStatus() != 1 || !strings.HasSuffix(string(output), test.cause)):
				t.Errorf("want exit status 1 and %s, got %v, %q", test.cause, err, output)
			}
		})
	}
	f := newEnv(t, Options{})
	if _, _, err := f.ExecSync(t.Context(), "gone", LivenessProbe.Command(), time.Second); err == nil {
		t.Error("a probe of a container that is gone succeeds")
	}
}

func TestBadScriptsAreRefusedByName(t *testing.T) {
	f := newEnv(t, Options{})
	f.setCIDR("10.1.0.0/24")
	for _, name := range []string{
		StartedAfterAnnotation, ReadyAfterAnnotation, ReadinessFailsAfterAnnotation, LivenessFailsAfterAnnotation,
		TerminatesAfterAnnotation, ImagePullFailsAnnotation,
	} {
		for _, value := range []string{"soon", "-1s"} {
			_, err := f.RunPodSandbox(t.Context(), podConfig("p", map[string]string{name: value}), "")
			if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), value) {
				t.Errorf("%s=%s: want an error that names both, got %v", name, value, err)
			}
		}
	}
}

// Users write these annotations on pods.
func FuzzScript(f *testing.F) {
	for _, seed := range []string{"5s", "2d", "-1s", "", "9999999h", "true", "false", "1e9s", "\x00"} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, after, fails string) {
		said, err := scriptOf(map[string]string{ReadyAfterAnnotation: after, TerminatesAfterAnnotation: after, ImagePullFailsAnnotation: fails})
		if err != nil {
			return
		}
		if len(said) != 2 || said[ReadyAfterAnnotation] < 0 || fails != "true" && fails != "false" {
			t.Errorf("%q and %q become %v", after, fails, said)
		}
		r := New(Options{TerminationPercent: 50})
		for _, grace := range []time.Duration{0, time.Second, maxGracePeriod * time.Second} {
			if wait, _ := r.reactionTo(&container{script: said}, grace); wait < 0 {
				t.Errorf("%q: the container ends %s before it is told to", after, -wait)
			}
		}
	})
}
