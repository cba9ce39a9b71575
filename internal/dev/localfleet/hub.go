package localfleet

import (
	"context"
	"fmt"
	"os/exec"

	"github.com/hollowfleet/hollowfleet/internal/dev/process"
)

func (f *Fleet) startHub(ctx context.Context) error {
	group, err := f.groupOfHub(ctx)
	if err != nil {
		return err
	}
	plane := f.planeOf(hubName, group)
	plane.components = process.HubComponents
	if f.Hub, f.HubClient, err = f.startControlPlane(ctx, plane); err != nil {
		return err
	}
	if f.HubConfig, err = f.Hub.RESTConfig(); err != nil {
		return err
	}
	// On a laptop that starts fifty clusters, an API server may need minutes for the kinds. ctx ends this too.
	install := exec.CommandContext(ctx, f.binaryPath("hub"), "install", "--kubeconfig", f.Hub.AdminKubeconfig(), "--timeout", "10m")
	if output, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("running hub install: %w: %s", err, output)
	}
	return f.StartHubProcess(ctx)
}

// StartHubProcess starts the hub, also again after it has ended.
func (f *Fleet) StartHubProcess(ctx context.Context) error {
	kubeconfig, err := f.Hub.Kubeconfig(ctx, hubUser, "hollowfleet:hub")
	if err != nil {
		return err
	}
	if kubeconfig, _, err = f.routedKubeconfig(Link{From: FromHub, To: HubServer}, kubeconfig); err != nil {
		return err
	}
	args, err := f.withEndpoints("hub", append([]string{"--kubeconfig", kubeconfig}, f.options.HubArgs...))
	if err != nil {
		return err
	}
	f.HubProcess, err = f.startProcess("hub", "hub", args)
	return err
}
