package plane

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/emicklei/go-restful/v3"
	apiextensionsscheme "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/scheme"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	apiopenapi "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/mux"
	openapiroutes "k8s.io/apiserver/pkg/server/routes"
	k8sscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/builder3/util"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/common/restfuladapter"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
)

// openAPI describes the kinds of the code, which are the same in all planes of the process: their descriptions were half of a plane's
// heap. It belongs to no plane. What a plane adds, such as kinds of its own, is in that plane alone.
var openAPI = &sharedOpenAPI{definitions: map[string]map[string]common.OpenAPIDefinition{}, specs: map[[sha256.Size]byte]*kindSpecs{}}

// mostSpecs bounds the specs that are kept for planes that start later. Planes differ in them by flags such as runtime-config only.
const mostSpecs = 4

type sharedOpenAPI struct {
	// defining guards definitions: a set for each way to refer to another kind, by an example of it.
	defining    sync.Mutex
	definitions map[string]map[string]common.OpenAPIDefinition
	// building guards specs, by what they were built from.
	building sync.Mutex
	specs    map[[sha256.Size]byte]*kindSpecs
}

// kindSpecs serve specs. Nothing of the plane they were built for is in them.
type kindSpecs struct {
	v3 http.Handler
	// mutex guards v2, which is nil until a client asks for it: few do.
	mutex sync.Mutex
	v2    http.Handler
}

// copyDefinitions returns definitions of the code's kinds. The map is the caller's: builders of specs write to it and to the extensions
// in it. They copy what is deeper before they change it.
func (s *sharedOpenAPI) copyDefinitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	copied := maps.Clone(s.findDefinitions(ref))
	for name, definition := range copied {
		if definition.Schema.Extensions != nil {
			definition.Schema.Extensions = maps.Clone(definition.Schema.Extensions)
			copied[name] = definition
		}
	}
	return copied
}

func (s *sharedOpenAPI) findDefinitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	example := ref("k8s.io/api/core/v1.Pod")
	s.defining.Lock()
	defer s.defining.Unlock()
	definitions, ok := s.definitions[example.String()]
	if !ok {
		definitions = generatedopenapi.GetOpenAPIDefinitions(ref)
		if strings.HasPrefix(example.String(), refsInV3) {
			wrapRefs(definitions)
		}
		s.definitions[example.String()] = definitions
	}
	return definitions
}

// refsInV3 is how references begin in version 3 of OpenAPI.
const refsInV3 = "#/components/schemas/"

// wrapRefs does beforehand what builders of version 3 do to each definition. They copy what they change, 2 MiB in each plane, and leave as it
// is what has been done.
func wrapRefs(definitions map[string]common.OpenAPIDefinition) {
	for name, definition := range definitions {
		definition.Schema = *util.WrapRefs(&definition.Schema)
		definitions[name] = definition
	}
}

// serveSpecs lets a server that builds no specs serve those of the first plane with the same routes and settings.
func (s *sharedOpenAPI) serveSpecs(server genericapiserver.DelegationTarget, v2 *common.Config, v3 *common.OpenAPIV3Config) error {
	kinds, ok := server.(*genericapiserver.GenericAPIServer)
	if !ok {
		return errors.New("the aggregator has no API server behind it")
	}
	container := kinds.Handler.GoRestfulContainer
	specs, err := s.findSpecs(container, v2, v3)
	if err != nil {
		return err
	}
	paths := kinds.Handler.NonGoRestfulMux
	paths.Handle("/openapi/v2", http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		specs.findV2(container, v2).ServeHTTP(writer, request)
	}))
	paths.Handle("/openapi/v3", specs.v3)
	paths.HandlePrefix("/openapi/v3/", specs.v3)
	return nil
}

func (s *sharedOpenAPI) findSpecs(container *restful.Container, v2 *common.Config, v3 *common.OpenAPIV3Config) (*kindSpecs, error) {
	key, err := hashSpecs(container, v2, v3)
	if err != nil {
		return nil, err
	}
	s.building.Lock()
	defer s.building.Unlock()
	if specs, ok := s.specs[key]; ok {
		return specs, nil
	}
	paths := mux.NewPathRecorderMux("openapi-v3")
	openapiroutes.OpenAPI{V3Config: v3}.InstallV3(container, paths)
	if len(s.specs) >= mostSpecs {
		clear(s.specs)
	}
	s.specs[key] = &kindSpecs{v3: paths}
	return s.specs[key], nil
}

func (s *kindSpecs) findV2(container *restful.Container, config *common.Config) http.Handler {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.v2 == nil {
		paths := mux.NewPathRecorderMux("openapi-v2")
		openapiroutes.OpenAPI{Config: config}.InstallV2(container, paths)
		s.v2 = paths
	}
	return s.v2
}

// hashSpecs tells apart planes whose specs may differ. Feature gates and the emulated version are those of the process.
func hashSpecs(container *restful.Container, v2 *common.Config, v3 *common.OpenAPIV3Config) ([sha256.Size]byte, error) {
	settings, err := json.Marshal([]any{v2.Info, v2.SecurityDefinitions, v2.DefaultSecurity, v3.Info, v3.SecuritySchemes, v3.DefaultSecurity})
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("telling apart OpenAPI specs: %w", err)
	}
	lines := []string{string(settings)}
	for _, service := range container.RegisteredWebServices() {
		for _, route := range service.Routes() {
			lines = append(lines, fmt.Sprint(service.RootPath(), route.Method, route.Path, route.Operation, route.Consumes, route.Produces))
		}
	}
	slices.Sort(lines)
	return sha256.Sum256(fmt.Appendf(nil, "%q", lines)), nil
}

// identifyOperation is what builders use without a setting. Theirs keeps the definitions and the spec of its first use.
func identifyOperation(route common.Route) (string, []string, error) {
	adapter, ok := route.(*restfuladapter.RouteAdapter)
	if !ok {
		return "", nil, fmt.Errorf("a route is a %T", route)
	}
	return apiopenapi.GetOperationIDAndTags(adapter.Route)
}

// schemaResolver knows the schemas of the code's kinds, for the type check of ValidatingAdmissionPolicies.
var schemaResolver = sync.OnceValue(func() *resolver.DefinitionsSchemaResolver {
	return resolver.NewDefinitionsSchemaResolver(generatedopenapi.GetOpenAPIDefinitions, k8sscheme.Scheme, apiextensionsscheme.Scheme)
})
