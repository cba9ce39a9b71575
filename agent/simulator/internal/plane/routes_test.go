package plane_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/emicklei/go-restful/v3"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/plane"
)

// Claim: API servers of a process compile and describe each path once. Broken: go-restful keeps its routes in another way, and each server has its own; the description of another path.
func TestPathsAreShared(t *testing.T) {
	containers := []*restful.Container{newContainer("one"), newContainer("two"), newContainer("three")}
	const paths = 2
	expressions, descriptions, err := plane.ShareRoutes(containers...)
	if err != nil || expressions != paths || descriptions != paths {
		t.Errorf("%d expressions and %d descriptions are left of %d paths: %v", expressions, descriptions, paths, err)
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
	service.Route(service.GET("/things/{name}").Operation("read").To(func(request *restful.Request, answer *restful.Response) {
		_, _ = answer.Write([]byte(name + " " + request.PathParameter("name")))
	}).Param(service.PathParameter("name", "")))
	service.Route(service.GET("/things").Operation("list").To(func(*restful.Request, *restful.Response) {}).Param(service.QueryParameter("limit", "")))
	container := restful.NewContainer()
	container.Router(restful.CurlyRouter{})
	container.Add(service)
	return container
}
