package localfleet

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/internal/joining"
)

// StageLabel is on every Cluster, so that a MachineFleet can start with one of them: the first has StageCanary, the others
// StageProduction.
const (
	StageLabel      = "stage"
	StageCanary     = "canary"
	StageProduction = "production"
)

const hubPoll = 50 * time.Millisecond

// Join lets member's cluster join as "kubectl hollow cluster join --accept=now" does, also again. It leaves the
// kubeconfig that the agent starts with.
func (f *Fleet) Join(ctx context.Context, member *Member) error {
	server, err := joining.ServerOf(f.HubConfig)
	if err != nil {
		return err
	}
	if server.URL, err = f.routedServer(Link{From: member.Name, To: HubServer}, server.URL); err != nil {
		return err
	}
	request := joining.Request{
		Cluster: member.Name, Accept: joining.AcceptNow,
		TokenTTL: joining.DefaultTokenTTL, Again: true, Labels: f.labelsOf(member),
	}
	request.Deliver = func(result *joining.Result) error {
		kubeconfig, err := server.Kubeconfig(member.Name, result.Token)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(f.agentDir(member), 0o700); err != nil {
			return fmt.Errorf("making the directory of agent %s: %w", member.Name, err)
		}
		if err := os.WriteFile(f.bootstrapKubeconfig(member), kubeconfig, 0o600); err != nil {
			return fmt.Errorf("writing the bootstrap kubeconfig of agent %s: %w", member.Name, err)
		}
		return nil
	}
	result, err := request.Do(ctx, f.HubClient, time.Now())
	if err != nil {
		return err
	}
	return f.awaitHub(ctx, result.Cluster)
}

func (f *Fleet) labelsOf(member *Member) map[string]string {
	if member == f.Host {
		return map[string]string{v1alpha1.HostsLabel: v1alpha1.HostsSimulatedClusters}
	}
	return map[string]string{StageLabel: StageOf(slices.Index(f.Members, member))}
}

// StageOf is the value of StageLabel for the cluster of that index.
func StageOf(index int) string {
	if index == 0 {
		return StageCanary
	}
	return StageProduction
}

// awaitHub waits until the hub has looked at a Cluster, and with that has given its join token its rights: an agent
// that finds none waits for a while before it tries again.
func (f *Fleet) awaitHub(ctx context.Context, cluster *v1alpha1.Cluster) error {
	return f.HubProcess.Wait(ctx, hubPoll, func(ctx context.Context) (bool, error) {
		err := f.HubClient.Get(ctx, client.ObjectKeyFromObject(cluster), cluster)
		return err == nil && cluster.Status.ObservedGeneration >= cluster.Generation, err
	})
}

// grantAgent gives an agent its rights in the cluster that c is of.
func grantAgent(ctx context.Context, c client.Client) error {
	for _, dir := range []string{"rbac/agent-workload", "rbac/agent-load-tests", "rbac/agent-csi"} {
		if err := config.Apply(ctx, c, config.RBAC, dir); err != nil {
			return err
		}
	}
	return nil
}

// grantMember is grantAgent for a cluster whose Machines may be of provider kwok too.
func grantMember(ctx context.Context, c client.Client) error {
	if err := grantAgent(ctx, c); err != nil {
		return err
	}
	return config.Apply(ctx, c, config.RBAC, "rbac/agent-kwok")
}

// bootstrapFile, credentialDir and kwokDir are in the directory of an agent.
const (
	bootstrapFile = "bootstrap.kubeconfig"
	credentialDir = "credential"
	kwokDir       = "kwok"
	// kwokProgram is the name of kwok's controller among the built programs.
	kwokProgram = "kwok"
)

// agentDir has what an agent joins with, and the credential that it gets.
func (f *Fleet) agentDir(member *Member) string {
	return filepath.Join(f.options.Dir, "agents", member.Name)
}

func (f *Fleet) bootstrapKubeconfig(member *Member) string {
	return filepath.Join(f.agentDir(member), bootstrapFile)
}

// CredentialDir is where the agent of member keeps the key and certificate, or the token, that it uses on the hub.
func (f *Fleet) CredentialDir(member *Member) string {
	return filepath.Join(f.agentDir(member), credentialDir)
}

// StartAgent starts the agent of member, also again after it has ended. It has the rights of config/rbac in its
// cluster, and on the hub those that it gets by joining.
func (f *Fleet) StartAgent(ctx context.Context, member *Member) error {
	kubeconfigs, err := f.agentKubeconfigs(ctx, member)
	if err != nil {
		return err
	}
	name := agentName(member.Name)
	if member == f.Host {
		kubeconfigs = append(kubeconfigs, hostFlag, f.socketPath())
	}
	if member != f.Host {
		// The program need not be there: Machines that need it say how to build it.
		kubeconfigs = append(kubeconfigs, "--kwok-program", filepath.Join(f.options.BinDir, kwokProgram), "--kwok-dir", filepath.Join(f.agentDir(member), kwokDir))
	}
	args, err := f.withEndpoints(name, slices.Concat([]string{
		"--cluster-name", member.Name,
		"--bootstrap-kubeconfig", f.bootstrapKubeconfig(member), "--credential-dir", f.CredentialDir(member),
		// All Nodes are hollow, but for the podhost's.
		"--hollow-taint", string(v1alpha1.HollowTaintNever),
		// They are the clusters of the one who started them.
		"--static-pod-namespaces", "*",
	}, f.imageFlags(), kubeconfigs, f.options.AgentArgs))
	if err != nil {
		return err
	}
	if member.Agent, err = f.startProcess(name, "agent", args); err != nil {
		return err
	}
	f.reportProgress("%s: agent started", member.Name)
	return nil
}

// agentName is the name of the process of the agent of a cluster.
func agentName(cluster string) string { return "agent " + cluster }

// HollowNodeProcess returns the process ID of the hollow node of a pod. The node has to have a process of its own.
func HollowNodeProcess(pod string) (int, error) {
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return 0, fmt.Errorf("looking for the process of pod %s: %w", pod, err)
	}
	for _, path := range environments {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // It has ended, or belongs to another user.
		}
		variables := bytes.Split(content, []byte{0})
		if slices.ContainsFunc(variables, func(v []byte) bool { return string(v) == "HOSTNAME="+pod }) {
			return strconv.Atoi(filepath.Base(filepath.Dir(path)))
		}
	}
	return 0, fmt.Errorf("pod %s has no process of its own", pod)
}
