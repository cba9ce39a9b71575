package localfleet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/internal/localclusters"
)

const (
	// proofAge is how long an answer of an API server counts, so that many questions make one.
	proofAge = 2 * time.Second
	// proofPatience bounds the question.
	proofPatience = 3 * time.Second
	answerLimit   = 64 << 10
)

// proof is the last answer of an API server that it is ready.
type proof struct {
	client  *http.Client
	server  string
	version string
	at      time.Time
}

// observe adds to answer how far the cluster is.
func (h *hosted) observe(ctx context.Context, answer *localclusters.Cluster) {
	h.mutex.Lock()
	member, problem, known, upgrading, waiting := h.member, h.problem, h.proof, h.upgrading, h.waiting
	h.mutex.Unlock()
	answer.Message, answer.Version = problem, known.version
	if answer.Phase == localclusters.Removing {
		return
	}
	if waiting != "" {
		answer.Message = waiting
		return
	}
	if problem != "" {
		answer.Phase = localclusters.Failed
		return
	}
	if member.Cluster == nil || member.Agent == nil || !runsPlane(member.Cluster) || isDone(member.Agent) {
		return
	}
	if upgrading != "" {
		known.at, known.version = time.Time{}, "" // It may be another one by now.
	}
	known, err := h.proveReady(ctx, member.Cluster, known)
	answer.ControllerManager, answer.Scheduler = readComponents(member.Cluster)
	switch {
	case upgrading != "":
		answer.Phase, answer.Message = localclusters.Starting, upgrading
		if known.version != "" {
			answer.Version = known.version
		}
		return
	case err != nil:
		answer.Phase, answer.Message = localclusters.Failed, fmt.Sprintf("its API server does not answer: %v", err)
		return
	}
	answer.Phase, answer.Version, answer.Checked = localclusters.Running, known.version, &known.at
}

// proveReady asks the API server, unless known is fresh.
func (h *hosted) proveReady(ctx context.Context, cluster *process.Cluster, known proof) (proof, error) {
	if time.Since(known.at) < proofAge {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, proofPatience)
	defer cancel()
	if known.client == nil {
		config, err := cluster.RESTConfig()
		if err != nil {
			return known, err
		}
		if known.client, err = rest.HTTPClientFor(config); err != nil {
			return known, fmt.Errorf("making a client: %w", err)
		}
		known.server = config.Host
	}
	if _, err := known.askServer(ctx, "/readyz"); err != nil {
		return known, err
	}
	known.at = time.Now()
	if known.version == "" {
		content, err := known.askServer(ctx, "/version")
		if err != nil {
			return known, err
		}
		if known.version, err = parseVersion(content); err != nil {
			return known, err
		}
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.member.Cluster == cluster {
		h.proof = known
	}
	return known, nil
}

func (p proof) askServer(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.server+path, nil)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", path, err)
	}
	response, err := p.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", path, err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, answerLimit))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answers %s", response.Status)
	}
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", path, err)
	}
	return content, nil
}

// readComponents returns the versions of controller manager and scheduler; empty for what does not run.
func readComponents(cluster *process.Cluster) (controllerManager, scheduler string) {
	ready, err := cluster.Ready()
	if err != nil {
		return "", ""
	}
	version := func(name string) string {
		component := ready.Components[name]
		switch own, found := strings.CutPrefix(ready.Version, "v"+component.EmulatedVersion+"."); {
		case component.PID == 0 || component.EmulatedVersion == "":
			return ""
		case found && own != "":
			return ready.Version
		}
		return "v" + component.EmulatedVersion
	}
	return version("kube-controller-manager"), version("kube-scheduler")
}

// parseVersion reads what an API server says of itself. One that emulates another minor runs as that one.
func parseVersion(content []byte) (string, error) {
	var said struct {
		Major          string `json:"major"`
		Minor          string `json:"minor"`
		GitVersion     string `json:"gitVersion"`
		EmulationMajor string `json:"emulationMajor"`
		EmulationMinor string `json:"emulationMinor"`
	}
	if err := json.Unmarshal(content, &said); err != nil {
		return "", fmt.Errorf("reading the version of the API server: %w", err)
	}
	if said.EmulationMinor != "" && said.EmulationMinor != said.Minor {
		return fmt.Sprintf("v%s.%s", said.EmulationMajor, said.EmulationMinor), nil
	}
	return said.GitVersion, nil
}
