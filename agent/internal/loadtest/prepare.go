package loadtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest/confine"
	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest/measurement"
	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest/template"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// defaultServiceAccount is in every namespace soon after it was made. Until then no pod can be made there.
	defaultServiceAccount = "default"
	// accountTimeout is how long it is waited for in all namespaces, and accountPause how often it is looked for.
	accountTimeout, accountPause = 30 * time.Second, 100 * time.Millisecond
	// namespaceTimeout bounds the creation of one namespace, which is not broken off in the middle.
	namespaceTimeout = 30 * time.Second
)

// rights says what gives an agent the rights to load tests.
const rights = "apply config/rbac/agent-load-tests in the cluster, or set loadTests.enabled of the agent's chart; for a kind that is not " +
	"in there, bind a ClusterRole of your own to the agent: see Rights in docs/load-tests.md"

// withRights adds to an error of a missing right what gives it.
func withRights(err error) error {
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot ") {
		return fmt.Errorf("%w: the agent has no right to it: %s", err, rights)
	}
	return err
}

// newEngine returns what carries a run out.
func newEngine(deps Deps, run *v1alpha1.LoadTestRun) (*engine, error) {
	e := &engine{deps: deps, run: run, Meter: measurement.New(run, deps.Clock, deps.NodeInformers)}
	var err error
	e.load, err = deps.Load(e.ObserveAnswers)
	return e, err
}

// prepareRun makes all that the run needs before its first step. Its errors name what the user can change.
func (e *engine) prepareRun(ctx context.Context) error {
	var err error
	if e.templates, err = template.Check(ctx, e.deps.Target, e.run, e.deps.Limits); err != nil {
		return err
	}
	if err := e.refuseKwok(ctx); err != nil {
		return err
	}
	for _, template := range e.templates {
		if err := e.resolveTemplate(template); err != nil {
			return fmt.Errorf("%s: %w", template, err)
		}
	}
	if err := e.makeNamespaces(ctx); err != nil {
		return err
	}
	if err := e.awaitAccounts(ctx); err != nil {
		return err
	}
	for i := range e.run.Spec.Templates {
		template := e.templates[e.run.Spec.Templates[i].Name]
		if err := e.dryRunTemplate(ctx, template); err != nil {
			return fmt.Errorf("%s: the API server refuses its first object: %w", template, err)
		}
	}
	return withRights(e.Start(ctx, e.load, e.namespaces, e.templates))
}

// refuseKwok refuses a run whose pods may go to Nodes of provider kwok: their times would be measured as those of kubelets.
func (e *engine) refuseKwok(ctx context.Context) error {
	if e.deps.Limits.Nodes != confine.AnyNodes {
		return nil
	}
	has, err := hasKwok(ctx, e.deps.Target)
	if err != nil || !has {
		return err
	}
	return errors.New("the cluster has Nodes of provider kwok, on which pods start without a kubelet, and its agent lets pods of load tests go there: " +
		"run the test in another cluster, or set loadTests.nodes of the agent's chart (--load-test-nodes) to hollow")
}

// hasKwok reports whether a cluster has Nodes of provider kwok.
func hasKwok(ctx context.Context, target kubernetes.Interface) (bool, error) {
	nodes, err := target.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.HollowNodeLabel + "=" + v1alpha1.KwokNodeLabelValue, Limit: 1})
	if err != nil {
		return false, fmt.Errorf("looking for Nodes of provider kwok: %w", err)
	}
	return len(nodes.Items) > 0, nil
}

// resolveTemplate finds where the API server has the objects of a template.
func (e *engine) resolveTemplate(template *template.Template) error {
	version := template.Kind.GroupVersion()
	served, err := e.load.Clientset.Discovery().ServerResourcesForGroupVersion(version.String())
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the API server does not serve apiVersion %s", version)
	}
	if err != nil {
		return fmt.Errorf("finding the resource of kind %s: %w", template.Kind.Kind, err)
	}
	for _, resource := range served.APIResources {
		if resource.Kind != template.Kind.Kind || strings.Contains(resource.Name, "/") {
			continue
		}
		if !resource.Namespaced {
			return fmt.Errorf("kind %s is not namespaced, and a run creates objects only in its own namespaces", resource.Kind)
		}
		template.Resource = schema.GroupVersionResource{Group: version.Group, Version: version.Version, Resource: resource.Name}
		return nil
	}
	return fmt.Errorf("the API server serves no kind %s in apiVersion %s", template.Kind.Kind, version)
}

// namespaceName is that of one of a run's namespaces.
func namespaceName(run *v1alpha1.LoadTestRun, n int) string {
	uid := string(run.UID)
	return fmt.Sprintf("load-%s-%d", uid[:min(len(uid), 8)], n)
}

// namespaceCount is how many a run makes.
func namespaceCount(run *v1alpha1.LoadTestRun) int { return int(max(run.Spec.Namespaces, 1)) }

// makeNamespaces makes those of the run that are not there. One that is there and is not the run's is left alone.
func (e *engine) makeNamespaces(ctx context.Context) error {
	for n := range namespaceCount(e.run) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := e.makeNamespace(ctx, namespaceName(e.run, n)); err != nil {
			return withRights(err)
		}
	}
	return nil
}

func (e *engine) makeNamespace(ctx context.Context, name string) error {
	// A request that is broken off may still have made the namespace, and then it would not be in e.namespaces.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), namespaceTimeout)
	defer cancel()
	namespaces := e.deps.Target.CoreV1().Namespaces()
	wanted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: e.deps.Limits.NamespaceLabels()}}
	wanted.Labels[v1alpha1.LoadTestRunUIDLabel] = string(e.run.UID)
	_, err := namespaces.Create(ctx, wanted, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		there, err := namespaces.Get(ctx, name, metav1.GetOptions{})
		switch {
		case err != nil:
			return fmt.Errorf("reading namespace %s, which exists already: %w", name, err)
		case there.Labels[v1alpha1.LoadTestRunUIDLabel] != string(e.run.UID):
			return fmt.Errorf("namespace %s already exists and does not belong to this run: remove it, or create the run again", name)
		case !e.deps.Limits.Enforces(there.Labels):
			return fmt.Errorf("namespace %s already exists and does not enforce the Pod Security Standard %s: create the run again", name, e.deps.Limits.PodSecurity)
		case there.DeletionTimestamp != nil:
			return fmt.Errorf("namespace %s is being removed: create the run again", name)
		}
	} else if err != nil {
		return fmt.Errorf("making namespace %s: %w", name, err)
	}
	e.namespaces = append(e.namespaces, name)
	return nil
}

// awaitAccounts waits for the ServiceAccounts of pods, so that no pod has to wait for them when it is measured. A cluster without
// the controller that makes them is none of its business.
func (e *engine) awaitAccounts(ctx context.Context) error {
	deadline := e.deps.Clock.Now().Add(accountTimeout)
	for _, namespace := range e.namespaces {
		for {
			_, err := e.load.Clientset.CoreV1().ServiceAccounts(namespace).Get(ctx, defaultServiceAccount, metav1.GetOptions{})
			if err == nil {
				break
			}
			if !apierrors.IsNotFound(err) {
				return withRights(fmt.Errorf("reading ServiceAccount %s in namespace %s: %w", defaultServiceAccount, namespace, err))
			}
			if e.deps.Clock.Now().After(deadline) {
				return nil
			}
			if err := sleepFor(ctx, e.deps, accountPause); err != nil {
				return err
			}
		}
	}
	return nil
}

// dryRunTemplate lets the API server check the first object of a template, which it does not keep.
func (e *engine) dryRunTemplate(ctx context.Context, template *template.Template) error {
	object, err := template.Object(e.namespaces[0], 0, 0)
	if err != nil {
		return err
	}
	_, err = e.load.Dynamic.Resource(template.Resource).Namespace(e.namespaces[0]).Create(ctx, object, metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
	})
	if err != nil {
		return withRights(err)
	}
	return context.Cause(ctx)
}
