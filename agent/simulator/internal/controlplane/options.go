// Package controlplane runs a Kubernetes control plane as local processes: it
// makes the certificates and kubeconfigs, starts the components in order,
// keeps them running and ends them in order.
package controlplane

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// The components, in the order in which they start.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Podhost           = "podhost"
)

// AllComponents are all components in the order in which they start.
var AllComponents = []string{Etcd, APIServer, ControllerManager, Scheduler, Podhost}

// DefaultReadyTimeout is how long a start may take until it is given up.
const DefaultReadyTimeout = 6 * time.Minute

const (
	// maxNameLength leaves room for what is appended to the name to make node
	// names, which are labels of at most 63 characters.
	maxNameLength = 45
	maxPort       = 65535
)

var (
	// ErrInvalid is wrapped by errors about options.
	ErrInvalid = errors.New("invalid usage")
	// ErrInUse is wrapped when another simcluster runs on the data directory.
	ErrInUse = errors.New("the data directory is in use")
	// ErrPortTaken is wrapped when a port that was asked for is not free.
	ErrPortTaken = errors.New("the port is taken")
	// ErrNotReady is wrapped when the cluster did not become ready.
	ErrNotReady = errors.New("the cluster did not become ready")
	// ErrNotRunning is wrapped when no simcluster runs on the data directory.
	ErrNotRunning = errors.New("no cluster is running")
)

// Options say what to run. Validate fills in the defaults.
type Options struct {
	// Name is the cluster's name. Empty means the name of the earlier start.
	Name string
	// DataDir holds all that is kept between two starts.
	DataDir string
	// Components are the components to run, default AllComponents.
	Components []string
	// Listen is the address of the API server, default 127.0.0.1. With 0.0.0.0 or ::
	// it listens on all interfaces, and kubeconfigs name the loopback address.
	Listen netip.Addr
	// ServingNames are further names and addresses of the API server, such as those
	// of a Service.
	ServingNames []string
	// PKIDir has certificates that another program makes and renews: see externalPKI.
	// Empty means that this one makes them.
	PKIDir string
	// Clients get kubeconfigs whose certificates are renewed.
	Clients []Client
	// Manifests are files or directories of objects that the cluster has once it is ready.
	Manifests []string
	// APIServerPort is the port that was asked for. With nil the port of the
	// earlier start is kept, with 0 a free one is chosen.
	APIServerPort *int
	// EmulatedVersion is the Kubernetes minor that API server, controller manager and scheduler emulate, such as 1.36. Empty means
	// that of the code.
	EmulatedVersion string
	// EmulatedVersionFile has the minor instead. The components are upgraded to it while they run, one after the other, when it changes.
	EmulatedVersionFile string
	// Aggregation lets servers of APIServices, such as metrics-server, know the users of the requests that the API server passes on to them,
	// and runs the controller of HorizontalPodAutoscalers. It costs two inotify instances.
	Aggregation bool
	// Fsync makes etcd write through to the disk.
	Fsync bool
	// ExtraArgs are key=value flags by component, which win over the built-in.
	ExtraArgs map[string][]string
	// ExitWithParent ends the cluster when the process ParentPID ends. With
	// ParentPID 0 that is the process which started this one.
	ExitWithParent bool
	ParentPID      int
	// ReadyTimeout bounds the start, default DefaultReadyTimeout.
	ReadyTimeout time.Duration
	// Executable is run for each component, as: Executable ChildArg component flags…
	Executable string
	ChildArg   string
	// PodhostNode is the podhost's node name, default "<name>-podhost".
	PodhostNode string
	// PodhostNamespace is the namespace whose pods the podhost runs. Only the agent, group hollowfleet:agents, may create pods there.
	// Empty for a podhost that runs pods of all namespaces.
	PodhostNamespace string
	// Shared runs all components as functions. With nil each has a process of its own.
	Shared SharedProcess `json:"-"`
	// Ready is called once the cluster is ready. It may be nil.
	Ready func() `json:"-"`
	// stop ends the run in order.
	stop func()
	// Version is written to ready.json.
	Version string
	// Progress gets one line for each step.
	Progress io.Writer `json:"-"`
}

// Client is a user of the cluster with a kubeconfig at Path. The certificate and its key are beside it, at
// Path.crt and Path.key, and are renewed for as long as the cluster runs.
type Client struct {
	User   string
	Groups []string
	Path   string
}

// Validate checks the options that need no look at the data directory and sets
// the defaults. Its errors wrap ErrInvalid and name the flag.
func (o *Options) Validate() error {
	if o.DataDir == "" {
		return fmt.Errorf("%w: --data-dir is needed", ErrInvalid)
	}
	if o.Name != "" {
		if err := validateName(o.Name); err != nil {
			return err
		}
	}
	if !o.Listen.IsValid() {
		o.Listen = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	if o.Listen.IsMulticast() || o.Listen.Zone() != "" {
		return fmt.Errorf("%w: --listen=%s is not the address of an interface", ErrInvalid, o.Listen)
	}
	if err := o.validateServing(); err != nil {
		return err
	}
	if o.APIServerPort != nil && (*o.APIServerPort < 0 || *o.APIServerPort > maxPort) {
		return fmt.Errorf("%w: --apiserver-port=%d is not between 0 and %d", ErrInvalid, *o.APIServerPort, maxPort)
	}
	if o.ReadyTimeout == 0 {
		o.ReadyTimeout = DefaultReadyTimeout
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if err := o.validateVersion(); err != nil {
		return err
	}
	if err := validateExtraArgs(o.ExtraArgs); err != nil {
		return err
	}
	return o.validateComponents()
}

func (o *Options) validateVersion() error {
	switch {
	case o.EmulatedVersionFile == "":
		return ValidateMinor(o.EmulatedVersion)
	case o.EmulatedVersion != "":
		return fmt.Errorf("%w: --emulated-version and --emulated-version-file say the same thing: leave one of them out", ErrInvalid)
	case o.Shared != nil:
		return fmt.Errorf("%w: --emulated-version-file is of no use with --group: all clusters of a group emulate the same minor", ErrInvalid)
	}
	return nil
}

// minorVersion is how the flag of that name wants it.
var minorVersion = regexp.MustCompile(`^1\.[0-9]{1,3}$`)

// ValidateMinor checks the flag --emulated-version.
func ValidateMinor(minor string) error {
	if minor != "" && !minorVersion.MatchString(minor) {
		return fmt.Errorf("%w: --emulated-version=%q is not a Kubernetes minor: write it as 1.36", ErrInvalid, minor)
	}
	return nil
}

// validateServing checks what the API server's certificate is made of.
func (o *Options) validateServing() error {
	if o.Aggregation && o.PKIDir != "" {
		return fmt.Errorf("%w: --aggregation: --pki-dir has no certificates for it: leave one of them out", ErrInvalid)
	}
	if o.PKIDir != "" && len(o.ServingNames) > 0 {
		return fmt.Errorf("%w: --serving-name is of no use with --pki-dir: the certificate there has the names", ErrInvalid)
	}
	if o.PKIDir != "" && len(o.Clients) > 0 {
		return fmt.Errorf("%w: --client-kubeconfig is of no use with --pki-dir: who makes the certificates there makes those of clients too", ErrInvalid)
	}
	for _, name := range o.ServingNames {
		_, err := netip.ParseAddr(name)
		if problems := validation.IsDNS1123Subdomain(name); err != nil && len(problems) > 0 {
			return fmt.Errorf("%w: --serving-name=%q: %s", ErrInvalid, name, strings.Join(problems, "; "))
		}
	}
	return nil
}

func validateName(name string) error {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Errorf("%w: --name=%q: %s", ErrInvalid, name, strings.Join(problems, "; "))
	}
	if len(name) > maxNameLength {
		return fmt.Errorf("%w: --name=%q has %d characters, at most %d are possible", ErrInvalid, name, len(name), maxNameLength)
	}
	return nil
}

// requirements says which component can't run without which other one.
var requirements = map[string]string{
	APIServer: Etcd, ControllerManager: APIServer, Scheduler: APIServer, Podhost: APIServer,
}

func (o *Options) validateComponents() error {
	if len(o.Components) == 0 {
		o.Components = slices.Clone(AllComponents)
	}
	for _, name := range o.Components {
		if !slices.Contains(AllComponents, name) {
			return fmt.Errorf("%w: --components has %q, possible are %s", ErrInvalid, name, strings.Join(AllComponents, ","))
		}
		if needed, ok := requirements[name]; ok && !slices.Contains(o.Components, needed) {
			return fmt.Errorf("%w: --components has %s without %s, which it needs", ErrInvalid, name, needed)
		}
	}
	if !slices.Contains(o.Components, Podhost) {
		return nil
	}
	if o.PodhostNode != "" {
		if problems := validation.IsDNS1123Subdomain(o.PodhostNode); len(problems) > 0 {
			return fmt.Errorf("%w: --podhost-node-name=%q: %s", ErrInvalid, o.PodhostNode, strings.Join(problems, "; "))
		}
	}
	return nil
}

func (o *Options) hasComponent(component string) bool {
	return slices.Contains(o.Components, component)
}
