package hollownode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"unsafe"

	"k8s.io/kubernetes/pkg/kubelet"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager/cache"
)

// tune changes what a kubelet offers no option for. It reaches into the kubelet's private fields, which
// hold still because this module pins one version of Kubernetes; a field that is gone or of another type
// is an error at start, and the package's test builds a kubelet.
func tune(k *kubelet.Kubelet) error {
	return errors.Join(
		// A hollow-node's address need not be on an interface of the machine, and may be a loopback one.
		setField(k, func(net.IP) error { return nil }, "nodeIPValidator"),
		// Watching for plugins takes one of the few inotify instances that a user may have.
		setField(k, pluginmanager.PluginManager(noPlugins{}), "pluginManager"),
		paceVolumes(k),
		orderSandboxStatus(k),
	)
}

// noPlugins stands in for the manager of CSI drivers and device plugins, which do not exist here.
type noPlugins struct{}

func (noPlugins) Run(context.Context, config.SourcesReady, <-chan struct{}) {}
func (noPlugins) AddHandler(string, cache.PluginHandler)                    {}

// setField sets the private field that the path leads to, starting at the struct that target points to
// and following pointers and interfaces.
func setField(target, value any, path ...string) error {
	field, err := privateField(target, path...)
	if err != nil {
		return err
	}
	given := reflect.ValueOf(value)
	if !given.Type().AssignableTo(field.Type()) {
		return fmt.Errorf("field %s of %T: want a %s, got a %s", path, target, field.Type(), given.Type())
	}
	field.Set(given)
	return nil
}

// getField returns the private field that the path leads to, as a T.
func getField[T any](target any, path ...string) (T, error) {
	var none T
	field, err := privateField(target, path...)
	if err != nil {
		return none, err
	}
	value, ok := field.Interface().(T)
	if !ok {
		return none, fmt.Errorf("field %s of %T: want a %T, got a %s", path, target, none, field.Type())
	}
	return value, nil
}

func privateField(target any, path ...string) (reflect.Value, error) {
	field := reflect.ValueOf(target)
	for _, name := range path {
		for field.Kind() == reflect.Pointer || field.Kind() == reflect.Interface {
			field = field.Elem()
		}
		if field.Kind() != reflect.Struct {
			return reflect.Value{}, fmt.Errorf("field %s of %T: there is no struct that holds it", name, target)
		}
		owner := field.Type()
		if field = field.FieldByName(name); !field.IsValid() {
			return reflect.Value{}, fmt.Errorf("%s has no field %s", owner, name)
		}
	}
	return reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem(), nil
}
