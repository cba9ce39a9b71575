package main

import (
	"bytes"
	"io"
	"net"
	"testing"

	. "github.com/onsi/gomega"
)

func TestExitCodesAndMessages(t *testing.T) {
	tests := map[string]struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		"help":                  {[]string{"--help"}, exitOK, "Examples:", ""},
		"help of install":       {[]string{"install", "--help"}, exitOK, "hub install --kubeconfig", ""},
		"help of check":         {[]string{"check-uninstall", "--help"}, exitOK, "hub check-uninstall --kubeconfig", ""},
		"argument of check":     {[]string{"check-uninstall", "x"}, exitUsage, "", `"x"`},
		"version":               {[]string{"--version"}, exitOK, "hub version dev", ""},
		"another namespace":     {[]string{"--namespace", "x"}, exitUsage, "", "unknown flag: --namespace"},
		"unknown flag":          {[]string{"--colour"}, exitUsage, "", "unknown flag: --colour"},
		"unknown flag, install": {[]string{"install", "--colour"}, exitUsage, "", "unknown flag: --colour"},
		"unknown command":       {[]string{"fly"}, exitUsage, "", `unknown command "fly"`},
		"argument of install":   {[]string{"install", "x"}, exitUsage, "", `"x"`},
		"unknown log format":    {[]string{"--log-format", "xml"}, exitUsage, "", "want text or json"},
		"no safety-up":          {[]string{"--safety-up", "0"}, exitUsage, "", `"--safety-up" flag: want a number, 1 or more`},
		"no safety-down":        {[]string{"--safety-down", "none"}, exitUsage, "", `"--safety-down" flag: want a number, 1 or more`},
		"safety-down too far":   {[]string{"--safety-down", "3"}, exitUsage, "", "--safety-down must be at most --safety-up, which is 2"},
		"no safety period": {[]string{"--machine-safety-overshooting-period", "0s"},
			exitUsage, "", `"--machine-safety-overshooting-period" flag: want more than 0s`},
		"defaults":      {[]string{"--help"}, exitOK, "--machine-safety-overshooting-period duration", ""},
		"no kubeconfig": {[]string{"--kubeconfig", "/does/not/exist"}, exitFailed, "", "reading the kubeconfig"},
		"no kubeconfig, install": {[]string{"install", "--kubeconfig", "/does/not/exist"},
			exitFailed, "", "reading the kubeconfig"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var stdout, stderr bytes.Buffer
			g.Expect(execute(t.Context(), test.args, &stdout, &stderr)).To(Equal(test.code))
			g.Expect(stdout.String()).To(ContainSubstring(test.stdout))
			g.Expect(stderr.String()).To(ContainSubstring(test.stderr))
			if test.code == exitOK {
				g.Expect(stderr.String()).To(BeEmpty())
			}
		})
	}
}

// What these addresses serve asks for no credential.
func TestNothingIsServedToOtherMachinesByDefault(t *testing.T) {
	flags := newCommand(t.Context(), io.Discard).Flags()
	for _, name := range []string{"health-address", "metrics-address", "pprof-address"} {
		address := flags.Lookup(name).DefValue
		if name == "pprof-address" && (address == "" || address == "0") {
			continue // It is not served.
		}
		host, port, err := net.SplitHostPort(address)
		if err != nil || !net.ParseIP(host).IsLoopback() || port == "0" {
			t.Errorf("--%s is %q by default, want a port of a loopback address: %v", name, address, err)
		}
	}
}
