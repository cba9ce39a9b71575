package plane_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/emicklei/go-restful/v3"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/plane"
)

// Claim: API servers of a process compile each path once. Broken: go-restful keeps its routes in another way, and each server has its own.
func TestPathsAreShared(t *testing.T) {
	containers := []*restful.Container{newContainer("one"), newContainer("two"), newContainer("three")}
	const paths = 2
	left, err := plane.SharePaths(containers...)
	if err != nil || left != paths {
		t.Errorf("%d expressions are left of %d paths: %v", left, paths, err)
	}
	for i, name := range []string{"one", "two", "three"} {
		answer := httptest.NewRecorder()
		containers[i].ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/shared/things/seven", nil))
		if want := name + " seven"; answer.Body.String() != want {
			t.Errorf("%s answers %q, want %q", name, answer.Body, want)
		}
	}
}

func newContainer(name string) *restful.Container {
	service := new(restful.WebService).Path("/shared")
	service.Route(service.GET("/things/{name}").To(func(request *restful.Request, answer *restful.Response) {
		_, _ = answer.Write([]byte(name + " " + request.PathParameter("name")))
	}))
	service.Route(service.GET("/things").To(func(*restful.Request, *restful.Response) {}))
	container := restful.NewContainer()
	container.Router(restful.CurlyRouter{})
	container.Add(service)
	return container
}
