package plane

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"syscall"

	"github.com/emicklei/go-restful/v3"
	"k8s.io/kube-openapi/pkg/builder3/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
)

// AlignWait is alignWait.
var AlignWait = alignWait

var reference = regexp.MustCompile(`"\$ref":"[^"]*"`)

// ChangedDefinitions names the definitions which all planes share that are not as they were made, but for how they refer to others.
func ChangedDefinitions() ([]string, error) {
	openAPI.defining.Lock()
	defer openAPI.defining.Unlock()
	changed := []string{}
	for example, definitions := range openAPI.definitions {
		made := generatedopenapi.GetOpenAPIDefinitions(spec.MustCreateRef)
		if strings.HasPrefix(example, refsInV3) {
			wrapRefs(made)
		}
		for name, definition := range definitions {
			got, err := json.Marshal(definition)
			if err != nil {
				return nil, err
			}
			want, err := json.Marshal(made[name])
			if err != nil {
				return nil, err
			}
			if string(reference.ReplaceAll(got, nil)) != string(reference.ReplaceAll(want, nil)) {
				changed = append(changed, example+": "+name)
			}
		}
	}
	return changed, nil
}

// KillComponent kills the run of a cluster's component.
func KillComponent(cluster, component string) error {
	process.mutex.Lock()
	var killed *Run
	for label, run := range process.runs {
		if strings.HasPrefix(label, cluster+"/"+component+"#") {
			killed = run
		}
	}
	process.mutex.Unlock()
	if killed == nil {
		return fmt.Errorf("%s of %s does not run", component, cluster)
	}
	return killed.Signal(syscall.SIGKILL)
}

// ShareRoutes shares what the paths of the containers were compiled to and what describes them, and returns how many different ones are left.
func ShareRoutes(containers ...*restful.Container) (expressions, descriptions int, err error) {
	left, described := map[uintptr]bool{}, map[*restful.Parameter]bool{}
	for _, container := range containers {
		if err := routes.shareOf(container); err != nil {
			return 0, 0, err
		}
		for _, service := range container.RegisteredWebServices() {
			for _, route := range service.Routes() {
				left[reflect.ValueOf(route).FieldByName("pathExpr").Pointer()] = true
				described[route.ParameterDocs[0]] = true
			}
		}
	}
	return len(left), len(described), nil
}

// CopiedByBuilders names the definitions of which each plane would keep a copy.
func CopiedByBuilders() []string {
	var copied []string
	for name, definition := range openAPI.copyDefinitions(func(name string) spec.Ref { return spec.MustCreateRef(refsInV3 + name) }) {
		if util.WrapRefs(&definition.Schema) != &definition.Schema {
			copied = append(copied, name)
		}
	}
	return copied
}
