package plane

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"unsafe"

	"github.com/emicklei/go-restful/v3"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// routes keeps what is the same in the routes of all planes. Each API server compiles a regular expression for each of its thousand routes,
// 5 MiB, and never matches it: its router compares the parts of paths. What describes routes is 2 MiB, and only specs are made of it.
var routes = &sharedRoutes{compiled: map[string]unsafe.Pointer{}, described: map[string]description{}}

// sharedRoutes has compiled paths by their templates, and descriptions by what they are of. They never change.
type sharedRoutes struct {
	mutex     sync.Mutex
	compiled  map[string]unsafe.Pointer
	described map[string]description
}

// description is what describes a route. Nothing of a plane is in it: kinds are there as empty objects.
type description struct {
	parameters              []*restful.Parameter
	responses               map[int]restful.ResponseError
	defaultResponse         *restful.ResponseError
	readSample, writeSample any
	writeSamples            []any
	metadata                map[string]any
}

var errRoutes = errors.New("sharing routes: go-restful or the API server keeps them in another way")

// shareAmong lets the routes of the server, and of those behind it, use what was made for equal ones before.
func (s *sharedRoutes) shareAmong(server genericapiserver.DelegationTarget) error {
	return eachServer(server, func(generic *genericapiserver.GenericAPIServer) error {
		return s.shareOf(generic.Handler.GoRestfulContainer)
	})
}

// eachServer calls the function for the server and for those behind it.
func eachServer(server genericapiserver.DelegationTarget, call func(*genericapiserver.GenericAPIServer) error) error {
	for {
		generic, ok := server.(*genericapiserver.GenericAPIServer)
		if !ok {
			return nil
		}
		if err := call(generic); err != nil {
			return err
		}
		server = generic.NextDelegate()
	}
}

func (s *sharedRoutes) shareOf(container *restful.Container) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, service := range container.RegisteredWebServices() {
		list := reflect.ValueOf(service).Elem().FieldByName("routes")
		if list.Kind() != reflect.Slice || list.Type().Elem() != reflect.TypeFor[restful.Route]() {
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
			s.shareDescription((*restful.Route)(list.Index(i).Addr().UnsafePointer()))
		}
	}
	return nil
}

func (s *sharedRoutes) shareDescription(route *restful.Route) {
	key := fmt.Sprintf("%q", []any{route.Method, route.Path, route.Operation, route.Doc, route.Consumes, route.Produces})
	d, ok := s.described[key]
	if !ok {
		s.described[key] = description{
			route.ParameterDocs, route.ResponseErrors, route.DefaultResponse, route.ReadSample, route.WriteSample, route.WriteSamples, route.Metadata,
		}
		return
	}
	route.ParameterDocs, route.ResponseErrors, route.DefaultResponse = d.parameters, d.responses, d.defaultResponse
	route.ReadSample, route.WriteSample, route.WriteSamples, route.Metadata = d.readSample, d.writeSample, d.writeSamples, d.metadata
}

// forgetCallers lets the server, and those behind it, forget the stacks of those who have registered paths. They are 1 MiB, for an error about
// a path that is registered twice.
func forgetCallers(server genericapiserver.DelegationTarget) error {
	return eachServer(server, func(generic *genericapiserver.GenericAPIServer) error {
		stacks := reflect.ValueOf(generic.Handler.NonGoRestfulMux).Elem().FieldByName("pathStacks")
		if stacks.Kind() != reflect.Map || stacks.Type() != reflect.TypeFor[map[string]string]() {
			return errRoutes
		}
		clear(*(*map[string]string)(stacks.Addr().UnsafePointer()))
		return nil
	})
}
