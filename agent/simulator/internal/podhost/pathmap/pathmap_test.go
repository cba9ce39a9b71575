package pathmap

import "testing"

func TestApply(t *testing.T) {
	m := New(map[string]string{
		"/etc/hollow":        "/v/outer",
		"/etc/hollow/inner/": "/v/inner",
		"/tmp":               "/tmp/pods/scratch",
	})
	for text, want := range map[string]string{
		"/etc/hollow":                        "/v/outer",
		"/etc/hollow/":                       "/v/outer/",
		"/etc/hollow/config.yaml":            "/v/outer/config.yaml",
		"/etc/hollow/inner/x":                "/v/inner/x",
		"/etc/hollow/innermost":              "/v/outer/innermost",
		"--config=/etc/hollow/config.yaml":   "--config=/v/outer/config.yaml",
		"a=/etc/hollow,b=/etc/hollow/b":      "a=/v/outer,b=/v/outer/b",
		"cat /etc/hollow/a >/tmp/b":          "cat /v/outer/a >/tmp/pods/scratch/b",
		`cat "/etc/hollow/a";ls '/tmp'`:      `cat "/v/outer/a";ls '/tmp/pods/scratch'`,
		"(cat /etc/hollow)":                  "(cat /v/outer)",
		"/bin:/etc/hollow:/sbin":             "/bin:/v/outer:/sbin",
		"/etc/hollow.yaml":                   "/etc/hollow.yaml",
		"/etc/hollow-old/x":                  "/etc/hollow-old/x",
		"/etc/hollows":                       "/etc/hollows",
		"/opt/etc/hollow":                    "/opt/etc/hollow",
		"x/etc/hollow":                       "x/etc/hollow",
		"./etc/hollow":                       "./etc/hollow",
		"http://host/etc/hollow":             "http://host/etc/hollow",
		"${HOME}/tmp":                        "${HOME}/tmp",
		"$(pwd)/tmp":                         "$(pwd)/tmp",
		"/tmp/pods/scratch/a":                "/tmp/pods/scratch/pods/scratch/a",
		"":                                   "",
		"nothing":                            "nothing",
		"/etc/hollowé":                       "/etc/hollowé",
		"file=/etc/hollow/inner/../../x tmp": "file=/v/inner/../../x tmp",
	} {
		if got := m.Apply(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
	if got := (Map{}).Apply("/tmp"); got != "/tmp" {
		t.Errorf("an empty map made %q", got)
	}
}

func TestOccurs(t *testing.T) {
	for text, want := range map[string]bool{
		"--dir=/data/x": true,
		"/data":         true,
		"/database":     false,
		"/x/data":       false,
		"":              false,
	} {
		if got := Occurs(text, "/data/"); got != want {
			t.Errorf("in %q: %v, want %v", text, got, want)
		}
	}
}
