package image

import (
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	set := Set{
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
	_, err := Set{"b": "/b", "a": "/a"}.Find("example.com/app:v1")
	for _, part := range []string{`"example.com/app:v1"`, "a, b", "--image example.com/app=DIRECTORY"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error %v lacks %q", err, part)
		}
	}
}

func TestInsideStaysInside(t *testing.T) {
	for path, want := range map[string]string{
		"/bin/x":         "/image/bin/x",
		"bin/x":          "/image/bin/x",
		"/../../etc":     "/image/etc",
		"a/../../../etc": "/image/etc",
		"":               "/image",
	} {
		if got := Inside("/image", path); got != want {
			t.Errorf("%q is at %s, want %s", path, got, want)
		}
	}
	if got := Inside("/", "/bin/sh"); got != "/bin/sh" {
		t.Errorf("in the machine's own root /bin/sh is at %s", got)
	}
}
