package plane

import (
	"errors"
	"reflect"
	"sync"
	"unsafe"

	"github.com/emicklei/go-restful/v3"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// pathExpressions keeps what the paths of all planes are compiled to. Each API server compiles a regular expression for each of its thousand
// routes, 5 MiB, and never matches it: its router compares the parts of paths.
var pathExpressions = &sharedPaths{compiled: map[string]unsafe.Pointer{}}

// sharedPaths has compiled paths by their templates. They never change.
type sharedPaths struct {
	mutex    sync.Mutex
	compiled map[string]unsafe.Pointer
}

var errRoutes = errors.New("sharing routes: go-restful keeps them in another way")

// shareAmong lets the routes of the server, and of those behind it, use what was compiled for equal paths before.
func (s *sharedPaths) shareAmong(server genericapiserver.DelegationTarget) error {
	for {
		generic, ok := server.(*genericapiserver.GenericAPIServer)
		if !ok {
			return nil
		}
		if err := s.shareOf(generic.Handler.GoRestfulContainer); err != nil {
			return err
		}
		server = generic.NextDelegate()
	}
}

func (s *sharedPaths) shareOf(container *restful.Container) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, service := range container.RegisteredWebServices() {
		list := reflect.ValueOf(service).Elem().FieldByName("routes")
		if list.Kind() != reflect.Slice {
			return errRoutes
		}
		for i := range list.Len() {
			template, compiled := list.Index(i).FieldByName("relativePath"), list.Index(i).FieldByName("pathExpr")
			if template.Kind() != reflect.String || compiled.Kind() != reflect.Pointer {
				return errRoutes
			}
			pointer := (*unsafe.Pointer)(compiled.Addr().UnsafePointer())
			if first, ok := s.compiled[template.String()]; ok {
				*pointer = first
			} else {
				s.compiled[template.String()] = *pointer
			}
		}
	}
	return nil
}
