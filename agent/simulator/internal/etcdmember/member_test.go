package etcdmember

import (
	"strings"
	"testing"
)

func TestConfigure(t *testing.T) {
	needed := []string{"--data-dir=/data", "--socket-dir=/run/sockets"}
	for name, test := range map[string]struct {
		args []string
		// want is part of the error, empty for none.
		want string
	}{
		"least":               {needed, ""},
		"etcd's own flag":     {append(needed, "--snapshot-count=7"), ""},
		"feature gate":        {append(needed, "--feature-gates=InitialCorruptCheck=true"), ""},
		"no socket directory": {needed[:1], "--socket-dir"},
		"no data directory":   {needed[1:], "--data-dir"},
		"unknown flag":        {append(needed, "--nonsense=1"), "nonsense"},
		// The library registers these but does not read them.
		"other address": {append(needed, "--listen-client-urls=http://127.0.0.1:1"), "--listen-client-urls"},
		"other output":  {append(needed, "--log-outputs=stdout"), "--log-outputs"},
	} {
		config, err := readFlags(test.args)
		if test.want != "" {
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: got %v, want an error with %q", name, err, test.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := config.Validate(); err != nil {
			t.Errorf("%s: etcd refuses it: %v", name, err)
		}
		for _, url := range append(config.ListenClientUrls, config.ListenPeerUrls...) {
			if url.Scheme != "unix" {
				t.Errorf("%s: it would listen on %s", name, url.String())
			}
		}
	}
}
