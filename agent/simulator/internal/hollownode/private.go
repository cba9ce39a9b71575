package hollownode

import (
	"fmt"
	"reflect"
	"strings"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/volume/csi"
)

// private is a field of Kubernetes that no option sets. It holds still because this module pins one version of Kubernetes.
// With another version a field that is gone, or of another type, is an error at start, which says why it is needed;
// TestKubelet builds a kubelet and finds out.
type private struct {
	// path leads to the field from the struct that is given, through pointers and interfaces.
	path string
	// why ends the sentence "A hollow kubelet needs it, because".
	why string
}

// All private fields of Kubernetes that this module reaches into.
var (
	nodeIPValidator = private{"nodeIPValidator",
		"the address of a hollow node need not be on an interface of the machine, and may be a loopback one"}
	pluginManager = private{"pluginManager",
		"watching for plugins takes one of the few inotify instances that a user may have"}
	volumeManager = private{"volumeManager",
		"its loops take two thirds of the processor time of an idle hollow kubelet, so they rest while no pod waits for a volume"}
	volumePods = private{"desiredStateOfWorldPopulator.podManager",
		"the loop that finds out what to mount starts there, and rests with the volume manager"}
	volumePodsAdded = private{"reconciler.populatorHasAddedPods",
		"the loop that mounts starts there, and rests with the volume manager"}
	statusManager = private{"statusManager",
		"a ready sandbox is reported through it before the pod's containers start"}
	runtimeHelper = private{"containerRuntime.runtimeHelper",
		"the kubelet reports a ready sandbox beside the start of its containers, and overwrites the status of one that starts in between"}
	hookRunner = private{"containerRuntime.runner",
		"an HTTP hook would be sent to the made-up address of its pod, which may be that of a real machine"}
	probeManager = private{"probeManager",
		"a probe would be sent to the made-up address of its pod, which may be that of a real machine"}
	evictionManager = private{"evictionManager",
		"its loop does not end with its node in each minor, and has nothing to do without thresholds"}
	evictionLock = private{"evictionManager.RWMutex",
		"it guards the pressure that a disruption puts on a node"}
	evictionConditions = private{"evictionManager.nodeConditions",
		"a disruption puts pressure on a node of which nothing is used up, and pods are admitted by it"}
	evictionObserved = private{"evictionManager.nodeConditionsLastObservedAt",
		"a manager with thresholds forgets a pressure that it has not observed for a time"}
	shutdownManager = private{"shutdownManager",
		"it hears of the shutdowns of the node's own machine, and not of those of the machine that simulates it"}
	nodeStatusSetters = private{"setNodeStatusFuncs",
		"the conditions of a disruption, and of a kubelet that is late, are reported with those of the kubelet"}
	workQueueLock = private{"workQueue.lock",
		"it guards the queue of the pods that are due"}
	workQueueItems = private{"workQueue.queue",
		"a kubelet whose queue is late measures its machine, and says so on its Node"}
	eventGenerator = private{"pleg",
		"a node of a process with others may start only when the loops of the one before have"}
	eventClock = private{"pleg.clock",
		"the loops of all nodes of a process work at the same moments"}
	statusPods = private{"statusManager.podManager",
		"the loop that writes the statuses of pods is ended there with its node"}
	healthChecks = private{"runtimeState.healthChecks",
		"the sync loop is ended there with its node"}
	healthCheckFunction = private{"fn",
		"the sync loop is ended there with its node"}
	deletedContainers = private{"containerDeletor.worker",
		"the loop that deletes containers is ended there with its node"}
	podsServer = private{"podsServer",
		"it keeps room for 1,000 events of an API that is not served"}
	podsServerQueue = private{"podsServer.broadcaster.incoming",
		"the loop that keeps what serves the API ends with its queue"}
	volumeCollector = private{"statsProvider",
		"a collector of metrics that is not used any more would keep the kubelet of a node that has ended"}
	logCollector = private{"podStats",
		"a collector of metrics that is not used any more would keep the kubelet of a node that has ended"}
	certificateCollector = private{"manager",
		"a collector of metrics that is not used any more would keep the clients of a node that has ended"}
	containerRuntime = private{"containerRuntime",
		"the logs of a hollow node are made up when they are read, and the kubelet reads files"}
	resourceAnalyzer = private{"resourceAnalyzer",
		"the kubelet's server reports the use of resources with it, and the kubelet's own way to start that server ends the process when it fails"}
	csiHost = private{"host",
		"the CSI plugin's own way to start keeps its node-info manager in a variable of its package, and a process has several kubelets"}
	csiDriverLister = private{"csiDriverLister",
		"the CSI plugin's own way to start is not used, see csiHost"}
	csiTokens = private{"serviceAccountTokenGetter",
		"the CSI plugin's own way to start is not used, see csiHost"}
	csiMounterDriver = private{"driverName",
		"it tells which driver a CSI volume is of"}
	csiMounterClient = private{"csiClientGetter.driverName",
		"the sockets of CSI drivers are in a variable by the driver's name, and each kubelet of a process has its own"}
	csiSocket = private{"endpoint",
		"the kubelet finds a CSI driver by it"}
	enabledFeatures = private{"enabled",
		"the feature gates refuse to turn off user namespaces, for which a kubelet reads /etc/passwd, which an image from scratch does not have"}
)

// fieldOf returns the field, starting at the struct that target points to.
func (p private) fieldOf(target any) (reflect.Value, error) {
	field := reflect.ValueOf(target)
	for _, name := range strings.Split(p.path, ".") {
		for field.Kind() == reflect.Pointer || field.Kind() == reflect.Interface {
			field = field.Elem()
		}
		if field.Kind() != reflect.Struct {
			return reflect.Value{}, p.lacksError(fmt.Sprintf("field %s of %T: there is no struct that holds it", name, target))
		}
		owner := field.Type()
		if field = field.FieldByName(name); !field.IsValid() {
			return reflect.Value{}, p.lacksError(fmt.Sprintf("%s has no field %s", owner, name))
		}
	}
	return reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem(), nil
}

// lacksError is the error for a field that is not as this version of Kubernetes has it.
func (p private) lacksError(what string) error {
	return fmt.Errorf("%s: a hollow kubelet needs it, because %s", what, p.why)
}

// clearField sets a private field of what target points at to zero.
func clearField(target any, p private) error {
	field, err := p.fieldOf(target)
	if err == nil {
		field.SetZero()
	}
	return err
}

// setField sets a private field of what target points to.
func setField(target any, p private, value any) error {
	field, err := p.fieldOf(target)
	if err != nil {
		return err
	}
	given := reflect.ValueOf(value)
	if !given.Type().AssignableTo(field.Type()) {
		return p.lacksError(fmt.Sprintf("field %s of %T: want a %s, got a %s", p.path, target, field.Type(), given.Type()))
	}
	field.Set(given)
	return nil
}

// getField returns a private field of what target points to, as a T.
func getField[T any](target any, p private) (T, error) {
	var none T
	field, err := p.fieldOf(target)
	if err != nil {
		return none, err
	}
	value, ok := field.Interface().(T)
	if !ok {
		return none, p.lacksError(fmt.Sprintf("field %s of %T: want a %T, got a %s", p.path, target, none, field.Type()))
	}
	return value, nil
}

// pointerTo returns a pointer to a private field of what target points to, which is a T.
func pointerTo[T any](target any, p private) (*T, error) {
	field, err := p.fieldOf(target)
	if err != nil {
		return nil, err
	}
	pointer, ok := field.Addr().Interface().(*T)
	if !ok {
		return nil, p.lacksError(fmt.Sprintf("field %s of %T: want a %T, got a %s", p.path, target, *new(T), field.Type()))
	}
	return pointer, nil
}

// newFileSource makes the kubelet's source of static pods, which sends to the channel that updates points to. The exported function also
// starts its loops.
//
//go:linkname newFileSource k8s.io/kubernetes/pkg/kubelet/config.newSourceFile
func newFileSource(path string, node types.NodeName, period time.Duration, updates unsafe.Pointer) unsafe.Pointer

// readFileSource lets a source that newFileSource made read its directory, and send the pods if they have changed.
//
//go:linkname readFileSource k8s.io/kubernetes/pkg/kubelet/config.(*sourceFile).listConfig
func readFileSource(source unsafe.Pointer, logger klog.Logger) error

// csiSockets has the sockets of the CSI drivers of all kubelets of the process, by the names that storage.clientName makes.
//
//go:linkname csiSockets k8s.io/kubernetes/pkg/volume/csi.csiDrivers
var csiSockets *csi.DriversStore

// addCSISocket lets kubelets find the socket of a CSI driver.
func addCSISocket(name, path string) error {
	driver := &csi.Driver{}
	if err := setField(driver, csiSocket, path); err != nil {
		return err
	}
	csiSockets.Set(name, *driver)
	return nil
}

// pointerOf is a channel as the pointer that it is: its type has no exported name.
func pointerOf[T any](channel *chan<- T) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(channel))
}
