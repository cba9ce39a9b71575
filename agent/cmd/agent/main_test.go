package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hollowfleet/hollowfleet/agent"
)

func TestExitStatus(t *testing.T) {
	tests := map[string]struct {
		arguments []string
		code      int
		says      string
	}{
		"help":                 {[]string{"--help"}, 0, "agent --cluster-name c1 --bootstrap-kubeconfig"},
		"version":              {[]string{"--version"}, 0, "agent version dev"},
		"no options":           {nil, exitUsage, "--cluster-name: "},
		"an unknown flag":      {[]string{"--nope"}, exitUsage, "unknown flag: --nope"},
		"an argument":          {[]string{"run"}, exitUsage, `unknown argument "run"`},
		"no duration":          {[]string{"--freeze-after", "soon"}, exitUsage, `invalid argument "soon"`},
		"an unknown format":    {[]string{"--log-format", "xml"}, exitUsage, `--log-format: want text or json, got "xml"`},
		"a missing kubeconfig": {[]string{"--cluster-name", "c1", "--hub-kubeconfig", "/nonexistent"}, exitUsage, "/nonexistent"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var output bytes.Buffer
			code := run(context.Background(), test.arguments, &output, &output)
			if code != test.code || !strings.Contains(output.String(), test.says) {
				t.Errorf("exit status %d, want %d, with %q in:\n%s", code, test.code, test.says, output.String())
			}
		})
	}
}

func TestHelpNamesTheExitStatus(t *testing.T) {
	var output bytes.Buffer
	run(context.Background(), []string{"--help"}, &output, io.Discard)
	if want := "Exit status: 0 after SIGTERM or SIGINT, 1 when it fails or another agent has taken its Lease, 2 for"; !strings.Contains(output.String(), want) {
		t.Errorf("the help lacks %q", want)
	}
}

func TestFlagsReachTheOptions(t *testing.T) {
	var got agent.Options
	failure := errors.New("stop here")
	command := newCommand(t.Context(), func(_ context.Context, options agent.Options) error {
		got = options
		return failure
	}, &bytes.Buffer{})
	command.SetArgs([]string{
		"--cluster-name=c1", "--hub-kubeconfig=h", "--target-kubeconfig=t", "--host-kubeconfig=o", "--target-namespace=tn",
		"--host-namespace=hn", "--hollow-node-image=i", "--hollow-node-minor-image=1.36=j", "--target-server-url=u", "--freeze-after=1m", "--health-address=a",
		"--metrics-address=b", "--pprof-address=c", "--log-format=json", "-v=2", "--bootstrap-kubeconfig=k", "--credential-dir=d", "--credential-secret=s",
		"--certificate-lifetime=2h", "--load-test-pod-security=restricted", "--load-test-nodes=any", "--load-test-kinds=A,B.example.com", "--load-test-max-stored=2Gi",
		"--simulated-clusters-socket=/s", "--credential-secret-cluster=host", "--simulated-clusters=pods", "--simulated-clusters-max=3", "--simulated-clusters-image=si",
		"--simulated-clusters-agent-image=sa", "--simulated-clusters-pki=self-signed", "--simulated-clusters-storage-size=3Gi", "--simulated-clusters-storage-class=sc",
		"--simulated-clusters-quota=pods=3,requests.memory=1Gi", "--kwok-program=kp", "--kwok-dir=kd", "--kwok-lease-duration=80s", "--kwok",
		"--csi-drivers=csi.example.com,b",
	})
	if err := command.Execute(); !errors.Is(err, failure) {
		t.Fatalf("Execute = %v", err)
	}
	if !got.Log.V(2).Enabled() || got.Log.V(3).Enabled() {
		t.Error("the verbosity is not that of -v=2")
	}
	for flag, pair := range map[string][2]any{
		"cluster-name": {got.ClusterName, "c1"}, "hub-kubeconfig": {got.HubKubeconfig, "h"}, "target-kubeconfig": {got.TargetKubeconfig, "t"},
		"host-kubeconfig": {got.HostKubeconfig, "o"}, "target-namespace": {got.TargetNamespace, "tn"}, "host-namespace": {got.HostNamespace, "hn"},
		"hollow-node-image": {got.HollowNodeImage, "i"}, "hollow-node-minor-image": {got.HollowNodeMinorImages["1.36"], "j"}, "target-server-url": {got.TargetServerURL, "u"}, "freeze-after": {got.FreezeAfter, time.Minute},
		"health-address": {got.HealthAddress, "a"}, "metrics-address": {got.MetricsAddress, "b"}, "pprof-address": {got.PprofAddress, "c"}, "bootstrap-kubeconfig": {got.BootstrapKubeconfig, "k"},
		"credential-dir": {got.CredentialDir, "d"}, "credential-secret": {got.CredentialSecret, "s"},
		"kwok-program": {got.Kwok.Program, "kp"}, "kwok-dir": {got.Kwok.Dir, "kd"}, "kwok-lease-duration": {got.Kwok.LeaseDuration, 80 * time.Second}, "kwok": {got.Kwok.Beside, true},
		"csi-drivers":            {strings.Join(got.CSIDrivers, "+"), "csi.example.com+b"},
		"certificate-lifetime":   {got.CertificateLifetime, 2 * time.Hour},
		"load-test-pod-security": {got.LoadTests.PodSecurity, "restricted"}, "load-test-nodes": {got.LoadTests.Nodes, "any"},
		"load-test-kinds": {strings.Join(got.LoadTests.Kinds, "+"), "A+B.example.com"}, "load-test-max-stored": {got.LoadTests.MaxStored, "2Gi"},
		"simulated-clusters-socket": {got.SimulatedClustersSocket, "/s"}, "credential-secret-cluster": {got.CredentialSecretCluster, "host"},
		"simulated-clusters": {got.SimulatedPods.By, "pods"}, "simulated-clusters-max": {got.SimulatedPods.Max, 3}, "simulated-clusters-image": {got.SimulatedPods.Image, "si"},
		"simulated-clusters-agent-image": {got.SimulatedPods.AgentImage, "sa"}, "simulated-clusters-pki": {got.SimulatedPods.Certificates, "self-signed"},
		"simulated-clusters-storage-size": {got.SimulatedPods.StorageSize, "3Gi"}, "simulated-clusters-storage-class": {got.SimulatedPods.StorageClass, "sc"},
		"simulated-clusters-quota": {got.SimulatedPods.Quota["pods"] + "+" + got.SimulatedPods.Quota["requests.memory"], "3+1Gi"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("--%s: got %v, want %v", flag, pair[0], pair[1])
		}
	}
}

// What these addresses serve asks for no credential.
// Edge case: Metrics were served on all interfaces. Also: hub/cmd/hub TestNothingIsServedToOtherMachinesByDefault.
func TestNothingIsServedToOtherMachinesByDefault(t *testing.T) {
	flags := newCommand(t.Context(), nil, &bytes.Buffer{}).Flags()
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
