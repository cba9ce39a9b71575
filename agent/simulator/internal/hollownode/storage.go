package hollownode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/csi"
	"k8s.io/kubernetes/pkg/volume/csi/nodeinfomanager"

	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/csidriver"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/kubeletversion"
)

const (
	// registerTimeout bounds the question to one driver, and registerPause is the time between two tries to register all of them.
	registerTimeout = 5 * time.Second
	registerPause   = time.Second
)

// storage has the CSI drivers of a node; nil for a node without any, which has no directory, no driver and no CSINode either.
type storage struct {
	// directory has the sockets, which are reached over it as those of device plugins are.
	directory *os.File
	kinds     []contract.CSIDriver
	drivers   []*csidriver.Driver

	mu sync.Mutex
	// uid is that of the Node, empty until it is known, and changed is closed when it changes.
	uid     types.UID
	changed chan struct{}
}

// openStorage starts the CSI drivers of a configuration. As pods of a real node do, they stay when the kubelet starts again.
func openStorage(c contract.Configuration, stateDir string) (*storage, error) {
	if len(c.CSIDrivers) == 0 {
		return nil, nil
	}
	path := filepath.Join(stateDir, "csi")
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of the CSI drivers: %w", err)
	}
	directory, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the directory of the CSI drivers: %w", err)
	}
	s := &storage{directory: directory, kinds: c.CSIDrivers, changed: make(chan struct{})}
	for i, kind := range c.CSIDrivers {
		driver, err := csidriver.Start(csidriver.Options{
			Directory: shortPath(directory), Socket: fmt.Sprintf("csi-%d.sock", i), Driver: kind, Node: c.NodeName,
			Volumes: filepath.Join(kubeletDir(stateDir), "pods"), Version: kubeletversion.BuiltIn(),
		})
		if err == nil {
			s.drivers = append(s.drivers, driver)
			err = addCSISocket(s.clientName(kind.Name), driver.Endpoint())
		}
		if err != nil {
			s.closeStorage()
			return nil, err
		}
	}
	return s, nil
}

// closeStorage is called when no kubelet of the node runs.
func (s *storage) closeStorage() {
	if s == nil {
		return
	}
	for i, driver := range s.drivers {
		csiSockets.Delete(s.clientName(s.kinds[i].Name))
		driver.Stop()
	}
	_ = s.directory.Close()
}

// clientName is the name under which the kubelet's clients find the socket of a driver: those of all kubelets of a process are in one map.
func (s *storage) clientName(driver string) string { return driver + "@" + s.directory.Name() }

// hasDriver reports whether the node has a driver of this name.
func (s *storage) hasDriver(name string) bool {
	for _, kind := range s.kinds {
		if kind.Name == name {
			return true
		}
	}
	return false
}

// setNode is called when the Node is found, and when another one has taken its place: its CSINode ends with a Node.
func (s *storage) setNode(uid types.UID) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uid != uid {
		s.uid = uid
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

func (s *storage) node() (uid types.UID, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.uid, s.changed
}

// plugins are the volume plugins of one kubelet, none without drivers. What they start ends with the kubelet.
func (s *storage) plugins(ended <-chan struct{}) []volume.VolumePlugin {
	if s == nil {
		return nil
	}
	var plugins []volume.VolumePlugin
	for _, plugin := range csi.ProbeVolumePlugins() {
		if attachable, ok := plugin.(volume.AttachableVolumePlugin); ok {
			plugins = append(plugins, &csiPlugin{AttachableVolumePlugin: attachable, storage: s, ended: ended})
		}
	}
	return plugins
}

// csiPlugin is the kubelet's CSI plugin. Its way to start, and its clients, are replaced: they keep what is one kubelet's in variables of
// their package.
type csiPlugin struct {
	volume.AttachableVolumePlugin
	storage *storage
	ended   <-chan struct{}
	host    volume.KubeletVolumeHost
	api     volume.VolumeHost
	nodes   nodeinfomanager.Interface
}

// Init gives the plugin its kubelet, and registers the drivers once the Node is there. The Node is not Ready before it has its CSINode.
func (p *csiPlugin) Init(host volume.VolumeHost) error {
	own, ok := host.(volume.KubeletVolumeHost)
	if !ok {
		return errors.New("starting the CSI plugin: its host is not a kubelet's")
	}
	if err := errors.Join(
		setField(p.AttachableVolumePlugin, csiHost, host),
		setField(p.AttachableVolumePlugin, csiDriverLister, own.CSIDriverLister()),
		setField(p.AttachableVolumePlugin, csiTokens, host.GetServiceAccountTokenFunc()),
	); err != nil {
		return fmt.Errorf("starting the CSI plugin: %w", err)
	}
	p.host, p.api = own, host
	p.nodes = nodeinfomanager.NewNodeInfoManager(host.GetNodeName(), host, nil)
	own.SetKubeletError(errors.New("CSINode is not yet initialized"))
	go p.keepRegistered()
	return nil
}

// keepRegistered registers the drivers with each Node of the kubelet. The requests of a node that has ended end this goroutine too.
func (p *csiPlugin) keepRegistered() {
	for {
		uid, changed := p.storage.node()
		var again <-chan time.Time
		if uid != "" {
			if err := p.registerDrivers(); err != nil {
				klog.Background().Error(err, "Registering the CSI drivers failed, trying again", "node", p.api.GetNodeName())
				again = time.After(registerPause)
			}
		}
		select {
		case <-changed:
		case <-again:
		case <-p.ended:
			return
		}
	}
}

// registerDrivers does what the kubelet does when drivers register.
func (p *csiPlugin) registerDrivers() error {
	if err := p.nodes.InitializeCSINodeWithAnnotation(); err != nil {
		p.host.SetKubeletError(fmt.Errorf("failed to initialize CSINode: %w", err))
		return fmt.Errorf("making the CSINode: %w", err)
	}
	p.host.SetKubeletError(nil)
	ctx, cancel := context.WithTimeout(context.Background(), registerTimeout)
	defer cancel()
	node, err := p.api.GetKubeClient().CoreV1().Nodes().Get(ctx, string(p.api.GetNodeName()), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("getting the Node for its topology: %w", err)
	}
	for i, driver := range p.storage.drivers {
		name := p.storage.kinds[i].Name
		topology, err := topologyOf(node, p.storage.kinds[i].TopologyKeys)
		if err != nil {
			return fmt.Errorf("registering the CSI driver %s: %w", name, err)
		}
		driver.SetTopology(topology)
		info, err := driver.AskNodeInfo(ctx)
		if err != nil {
			return err
		}
		if err := p.nodes.InstallCSIDriver(name, info.GetNodeId(), info.GetMaxVolumesPerNode(), info.GetAccessibleTopology().GetSegments()); err != nil {
			return fmt.Errorf("registering the CSI driver %s: %w", name, err)
		}
	}
	return nil
}

// topologyOf is where a Node is by its labels, some of which the agent writes after the Node has registered.
func topologyOf(node *corev1.Node, keys []string) (map[string]string, error) {
	topology := map[string]string{}
	for _, key := range keys {
		value, has := node.Labels[key]
		if !has {
			return nil, fmt.Errorf("the Node does not have the label %s yet", key)
		}
		topology[key] = value
	}
	return topology, nil
}

// CanDeviceMount is false: the drivers have nothing to stage.
func (p *csiPlugin) CanDeviceMount(*volume.Spec) (bool, error) { return false, nil }

// NewMounter returns what asks the node's own driver.
func (p *csiPlugin) NewMounter(spec *volume.Spec, pod *corev1.Pod) (volume.Mounter, error) {
	mounter, err := p.AttachableVolumePlugin.NewMounter(spec, pod)
	if err != nil {
		return nil, err
	}
	return ownerlessMounter{mounter}, p.useOwnDriver(mounter)
}

// NewUnmounter returns what asks the node's own driver.
func (p *csiPlugin) NewUnmounter(name string, pod types.UID) (volume.Unmounter, error) {
	unmounter, err := p.AttachableVolumePlugin.NewUnmounter(name, pod)
	if err != nil {
		return nil, err
	}
	return unmounter, p.useOwnDriver(unmounter)
}

// useOwnDriver lets a mounter find the socket of this node. With a driver that the node does not have it finds none, and says so.
func (p *csiPlugin) useOwnDriver(mounter any) error {
	driver, driverErr := csiMounterDriver.fieldOf(mounter)
	client, clientErr := csiMounterClient.fieldOf(mounter)
	if err := errors.Join(driverErr, clientErr); err != nil {
		return err
	}
	if name := driver.String(); p.storage.hasDriver(name) {
		client.SetString(p.storage.clientName(name))
	}
	return nil
}
