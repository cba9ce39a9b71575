package plane

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"syscall"

	"github.com/emicklei/go-restful/v3"
	"k8s.io/kube-openapi/pkg/validation/spec"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
)

var reference = regexp.MustCompile(`"\$ref":"[^"]*"`)

// ChangedDefinitions names the definitions which all planes share that are not as they were made, but for how they refer to others.
func ChangedDefinitions() ([]string, error) {
	made := generatedopenapi.GetOpenAPIDefinitions(spec.MustCreateRef)
	openAPI.defining.Lock()
	defer openAPI.defining.Unlock()
	changed := []string{}
	for example, definitions := range openAPI.definitions {
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

// SharePaths shares what the paths of the containers were compiled to, and returns how many different ones are left.
func SharePaths(containers ...*restful.Container) (int, error) {
	left := map[uintptr]bool{}
	for _, container := range containers {
		if err := pathExpressions.shareOf(container); err != nil {
			return 0, err
		}
		for _, service := range container.RegisteredWebServices() {
			for _, route := range service.Routes() {
				left[reflect.ValueOf(route).FieldByName("pathExpr").Pointer()] = true
			}
		}
	}
	return len(left), nil
}
