package localfleet

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
)

// Server is an API server as one program of a fleet sees it.
type Server string

// The servers. TargetServer and HostServer are one API server here: an agent makes Nodes on the first and pods on
// the second.
const (
	HubServer    Server = "hub"
	TargetServer Server = "target"
	HostServer   Server = "host"
)

// FromHub is what a Link of the hub process comes from.
const FromHub = hubName

// Link is the way of one program to one API server.
type Link struct {
	// From is FromHub, or the name of the cluster whose agent it is.
	From string
	To   Server
}

func (l Link) String() string {
	from := "agent " + l.From
	if l.From == FromHub {
		from = "hub"
	}
	return fmt.Sprintf("%s to %s API server", from, l.To)
}

// Cables are ways through which the connections of a fleet lead.
type Cables interface {
	// Route tells at which address the program that a link is for finds the API server that listens on address. It is
	// asked at each start of the program. The certificates of the API servers are for 127.0.0.1, with any port.
	Route(link Link, address string) (string, error)
	// ControlPlaneArgs returns what is added to the command line of the simcluster of that name, FromHub or one of
	// Options.Clusters, whose data directory is dir.
	ControlPlaneArgs(name, dir string) ([]string, error)
}

// routedServer is where link leads when the API server is at the URL server.
func (f *Fleet) routedServer(link Link, server string) (string, error) {
	if f.options.Cables == nil {
		return server, nil
	}
	parsed, err := url.Parse(server)
	if err != nil {
		return "", fmt.Errorf("routing %s: %w", link, err)
	}
	if parsed.Host, err = f.options.Cables.Route(link, parsed.Host); err != nil {
		return "", fmt.Errorf("routing %s: %w", link, err)
	}
	return parsed.String(), nil
}

// routedKubeconfig returns the path of a kubeconfig like the one at path, whose server is where link leads, and that
// server. Without a Route it is path itself.
func (f *Fleet) routedKubeconfig(link Link, path string) (routed, server string, err error) {
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return "", "", fmt.Errorf("routing %s: %w", link, err)
	}
	cluster := config.Clusters[config.Contexts[config.CurrentContext].Cluster]
	direct := cluster.Server
	if cluster.Server, err = f.routedServer(link, direct); err != nil {
		return "", "", err
	}
	if cluster.Server == direct {
		return path, direct, nil
	}
	routed = routedPath(path, link.To)
	if err := clientcmd.WriteToFile(*config, routed); err != nil {
		return "", "", fmt.Errorf("routing %s: %w", link, err)
	}
	return routed, cluster.Server, nil
}

// kubeconfigSuffix ends the names of the kubeconfigs that hub and agents use.
const kubeconfigSuffix = ".kubeconfig"

// routedPath is where the kubeconfig goes that is like the one at path, but leads to server another way.
func routedPath(path string, server Server) string {
	return fmt.Sprintf("%s-to-%s%s", strings.TrimSuffix(path, kubeconfigSuffix), server, kubeconfigSuffix)
}

// agentKubeconfigs are the flags with which an agent finds target and host, given a kubeconfig that reaches them
// directly. Hollow nodes always reach them directly: what their agent loses is none of theirs.
func (f *Fleet) agentKubeconfigs(ctx context.Context, member *Member) ([]string, error) {
	direct, err := member.Cluster.Kubeconfig(ctx, agentUser, "hollowfleet:agents")
	if err != nil {
		return nil, err
	}
	target, targetServer, err := f.routedKubeconfig(Link{From: member.Name, To: TargetServer}, direct)
	if err != nil {
		return nil, err
	}
	host, hostServer, err := f.routedKubeconfig(Link{From: member.Name, To: HostServer}, direct)
	if err != nil {
		return nil, err
	}
	args := []string{"--target-kubeconfig", target}
	if hostServer != targetServer {
		args = append(args, "--host-kubeconfig", host)
	}
	if target != direct {
		config, err := member.Cluster.RESTConfig()
		if err != nil {
			return nil, err
		}
		args = append(args, "--target-server-url", config.Host)
	}
	return args, nil
}
