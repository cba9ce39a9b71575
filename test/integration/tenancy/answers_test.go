package tenancy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/onsi/gomega/gcustom"
	"github.com/onsi/gomega/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// answer is what happens to an attempt.
type answer string

// The answers, as the page tells them.
const (
	allowed  answer = "allowed"
	rbac     answer = "refused by RBAC"
	policy   answer = "refused by the admission policy"
	approver answer = "denied by the hub's approver"
	kind     answer = "refused by the kind's own rules"
	server   answer = "refused by Kubernetes itself"
)

// refusedBy matches an error by who gave it; allowed matches none.
func refusedBy(wanted answer) types.GomegaMatcher {
	return gcustom.MakeMatcher(func(err error) (bool, error) {
		return answerOf(err) == wanted, nil
	}).WithTemplate(fmt.Sprintf("Expected {{.To}} be %s, got:\n{{.FormattedActual}}", wanted))
}

func answerOf(err error) answer {
	var denied deniedError
	switch {
	case err == nil:
		return allowed
	case errors.As(err, &denied):
		return approver
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'hollowfleet-"):
		return policy
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot "):
		return rbac
	case apierrors.IsInvalid(err):
		return kind
	case apierrors.IsForbidden(err):
		return server
	}
	return answer("answered otherwise: " + err.Error())
}
