package minor

import (
	"fmt"
	"reflect"
	"time"
	"unsafe"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/nodeshutdown"
	"k8s.io/kubernetes/pkg/kubelet/nodeshutdown/systemd"
)

// Logind is what a kubelet asks systemd's login manager.
type Logind interface {
	CurrentInhibitDelay() (time.Duration, error)
	InhibitShutdown() (systemd.InhibitLock, error)
	ReleaseInhibitLock(lock systemd.InhibitLock) error
	ReloadLogindConf() error
	MonitorShutdown(logger klog.Logger) (<-chan bool, error)
	OverrideInhibitDelay(delay time.Duration) error
	Close() error
}

// busField, a private field of the kubelet's shutdown manager, connects it to the system bus. A hollow kubelet has a bus of its own there,
// because the one of the machine would shut the node down with the machine that simulates it.
const busField = "newDBusConn"

// ConnectLogind returns the shutdown manager of a kubelet that has not started, connected to a login manager.
func ConnectLogind(manager nodeshutdown.Manager, to Logind) (nodeshutdown.Manager, error) {
	value := reflect.ValueOf(manager)
	if value.Kind() != reflect.Pointer || !value.Elem().FieldByName(busField).IsValid() {
		return nil, fmt.Errorf("%T has no field %s: a hollow kubelet needs it to hear of shutdowns", manager, busField)
	}
	field := value.Elem().FieldByName(busField)
	kind := field.Type()
	if kind.Kind() != reflect.Func || kind.NumOut() != 2 || !reflect.TypeOf(to).Implements(kind.Out(0)) {
		return nil, fmt.Errorf("field %s of %T is a %s: it does not take a %T", busField, manager, kind, to)
	}
	reflect.NewAt(kind, unsafe.Pointer(field.UnsafeAddr())).Elem().Set(reflect.MakeFunc(kind, func([]reflect.Value) []reflect.Value {
		return []reflect.Value{reflect.ValueOf(to).Convert(kind.Out(0)), reflect.Zero(kind.Out(1))}
	}))
	return manager, nil
}
