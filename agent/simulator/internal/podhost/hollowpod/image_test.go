package hollowpod

import (
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	set := Images{
		"busybox":                        "/plain",
		"busybox:special":                "/tagged",
		"registry.example:5000/team/app": "/port",
	}
	for name, want := range map[string]string{
		"busybox":                             "/plain",
		"busybox:1.0":                         "/plain",
		"busybox:special":                     "/tagged",
		"busybox@sha256:0123":                 "/plain",
		"busybox:1.0@sha256:0123":             "/plain",
		"registry.example:5000/team/app":      "/port",
		"registry.example:5000/team/app:v1":   "/port",
		"registry.example:5000/team/other:v1": "",
		"registry.example":                    "",
		"busy":                                "",
		"":                                    "",
	} {
		got, err := set.Find(name)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q was found at %q (%v), want %q", name, got, err, want)
		}
	}
}

func TestUnknownImageNamesTheKnownOnesAndTheFlag(t *testing.T) {
	_, err := Images{"b": "/b", "a": "/a"}.Find("example.com/app:v1")
	for _, part := range []string{`"example.com/app:v1"`, "a, b", "--image example.com/app=DIRECTORY"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error %v lacks %q", err, part)
		}
	}
}
