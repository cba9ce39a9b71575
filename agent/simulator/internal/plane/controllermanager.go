package plane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/apiserver/pkg/server/healthz"
	cacheddiscovery "k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	v1core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/keyutil"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	genericcontrollermanager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/pkg/clientbuilder"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/config"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	serviceaccountcontroller "k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/controller/validatingadmissionpolicystatus"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

const (
	// serverPatience is how long the controllers wait for the API server.
	serverPatience = 10 * time.Second
	// mapperPeriod is the time after which kinds are looked up again.
	mapperPeriod = 30 * time.Second
)

// runControllerManager does what app.Run does without a port and without leader election. That one names its informers by a name
// that a process has once, and keeps its health to itself.
func runControllerManager(ctx context.Context, run *Run) error {
	manager, err := options.NewKubeControllerManagerOptions()
	if err != nil {
		return err
	}
	known, disabled, aliases := app.KnownControllers(), app.ControllersDisabledByDefault(), app.ControllerAliases()
	if err := parseFlags(manager.Flags(known, disabled, aliases), run.component.Args); err != nil {
		return err
	}
	// The broadcaster of events ends after the controllers.
	settings, err := manager.Config(context.WithoutCancel(ctx), known, disabled, aliases)
	if err != nil {
		return err
	}
	completed := settings.Complete()
	if completed.ComponentConfig.Generic.LeaderElection.LeaderElect {
		return errElection
	}
	completed.EventBroadcaster.StartStructuredLogging(0)
	completed.EventBroadcaster.StartRecordingToSink(&v1core.EventSinkImpl{Interface: completed.Client.CoreV1().Events("")})
	defer completed.EventBroadcaster.Shutdown()
	name, err := cache.NewInformerName(run.label)
	if err != nil {
		return fmt.Errorf("naming informers: %w", err)
	}
	defer name.Release()
	return runControllers(ctx, run, completed, name)
}

func runControllers(ctx context.Context, run *Run, completed *config.CompletedConfig, name *cache.InformerName) error {
	root := clientbuilder.SimpleControllerClientBuilder{ClientConfig: completed.Kubeconfig}
	controllerContext, err := newControllerContext(ctx, completed, root, name)
	if err != nil {
		return err
	}
	descriptors := app.NewControllerDescriptors()
	// It needs the client of an administrator, which its descriptor keeps to itself.
	delete(descriptors, names.ServiceAccountTokenController)
	tokens, err := newTokenController(ctx, controllerContext, root)
	if err != nil {
		return err
	}
	own := []app.Controller{tokens}
	if controllerContext.IsControllerEnabled(descriptors[names.ValidatingAdmissionPolicyStatusController]) {
		policies, err := newPolicyStatusController(controllerContext)
		if err != nil {
			return err
		}
		own = append(own, policies)
	}
	// Its descriptor makes descriptions of all kinds for it alone.
	delete(descriptors, names.ValidatingAdmissionPolicyStatusController)
	health := &controllerHealth{}
	controllers, err := app.BuildControllers(ctx, controllerContext, descriptors, nil, health)
	if err != nil {
		return fmt.Errorf("building controllers: %w", err)
	}
	// A context that is made from a channel costs a goroutine for each watch.
	controllerContext.InformerFactory.StartWithContext(ctx)
	defer controllerContext.InformerFactory.Shutdown()
	controllerContext.ObjectOrMetadataInformerFactory.Start(ctx.Done())
	close(controllerContext.InformersStarted)
	run.setHealth(health.check)
	if !app.RunControllers(ctx, controllerContext, append(own, controllers...), app.ControllerStartJitter, completed.ControllerShutdownTimeout) {
		return errors.New("some controllers did not end in time")
	}
	return errors.New("all controllers have ended")
}

// newControllerContext is app.CreateControllerContext with a name for the informers that no other cluster has.
func newControllerContext(ctx context.Context, c *config.CompletedConfig, root clientbuilder.ControllerClientBuilder, name *cache.InformerName) (app.ControllerContext, error) {
	none := app.ControllerContext{}
	client, err := root.Client("shared-informers")
	if err != nil {
		return none, fmt.Errorf("making a client: %w", err)
	}
	metadataConfig, err := root.Config("metadata-informers")
	if err != nil {
		return none, fmt.Errorf("making a client: %w", err)
	}
	metadataClient, err := metadata.NewForConfig(metadataConfig)
	if err != nil {
		return none, fmt.Errorf("making a client: %w", err)
	}
	discovery, err := root.DiscoveryClient("controller-discovery")
	if err != nil {
		return none, fmt.Errorf("making a client: %w", err)
	}
	if err := genericcontrollermanager.WaitForAPIServer(client, serverPatience); err != nil {
		return none, fmt.Errorf("waiting for the API server: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(cacheddiscovery.NewMemCacheClient(discovery))
	go wait.Until(mapper.Reset, mapperPeriod, ctx.Done())
	period := app.ResyncPeriod(c)
	shared := informers.NewSharedInformerFactoryWithOptions(client, period(), informers.WithTransform(dropManagedFields), informers.WithInformerName(name))
	metadataInformers := metadatainformer.NewSharedInformerFactoryWithOptions(metadataClient, period(), metadatainformer.WithTransform(dropManagedFields))
	result := app.ControllerContext{
		ClientBuilder:                   controllerClients(c, root),
		InformerFactory:                 shared,
		ObjectOrMetadataInformerFactory: informerfactory.NewInformerFactory(shared, metadataInformers),
		ComponentConfig:                 c.ComponentConfig,
		RESTMapper:                      mapper,
		InformersStarted:                make(chan struct{}),
		ResyncPeriod:                    period,
		ControllerManagerMetrics:        controllersmetrics.NewControllerManagerMetrics("kube-controller-manager"),
	}
	collector := c.ComponentConfig.GarbageCollectorController
	if collector.EnableGarbageCollector && result.IsControllerEnabled(app.NewControllerDescriptors()[names.GarbageCollectorController]) {
		ignored := map[schema.GroupResource]struct{}{}
		for _, resource := range collector.GCIgnoredResources {
			ignored[schema.GroupResource{Group: resource.Group, Resource: resource.Resource}] = struct{}{}
		}
		result.GraphBuilder = garbagecollector.NewDependencyGraphBuilder(ctx, metadataClient, mapper, ignored, result.ObjectOrMetadataInformerFactory, result.InformersStarted)
	}
	controllersmetrics.Register()
	return result, nil
}

// dropManagedFields saves the memory of what no controller reads.
func dropManagedFields(object any) (any, error) {
	if accessor, ok := object.(metav1.ObjectMetaAccessor); ok {
		accessor.GetObjectMeta().SetManagedFields(nil)
	}
	return object, nil
}

func controllerClients(c *config.CompletedConfig, root clientbuilder.ControllerClientBuilder) clientbuilder.ControllerClientBuilder {
	if !c.ComponentConfig.KubeCloudShared.UseServiceAccountCredentials {
		return root
	}
	return clientbuilder.NewDynamicClientBuilder(restclient.AnonymousClientConfig(c.Kubeconfig), c.Client.CoreV1(), metav1.NamespaceSystem)
}

// tokenController writes the tokens of Secrets for ServiceAccounts.
type tokenController struct {
	*serviceaccountcontroller.TokensController
	workers int
}

// Name is the controller's.
func (c tokenController) Name() string { return names.ServiceAccountTokenController }

// Run runs it until the context ends.
func (c tokenController) Run(ctx context.Context) { c.TokensController.Run(ctx, c.workers) }

func newTokenController(ctx context.Context, c app.ControllerContext, root clientbuilder.ControllerClientBuilder) (app.Controller, error) {
	settings := c.ComponentConfig.SAController
	key, err := keyutil.PrivateKeyFromFile(settings.ServiceAccountKeyFile)
	if err != nil {
		return nil, fmt.Errorf("reading the key of service accounts: %w", err)
	}
	authority, err := os.ReadFile(settings.RootCAFile)
	if err != nil {
		return nil, fmt.Errorf("reading the authority for service accounts: %w", err)
	}
	client, err := root.Client("tokens-controller")
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	generator, err := serviceaccount.JWTTokenGenerator(serviceaccount.LegacyIssuer, key)
	if err != nil {
		return nil, fmt.Errorf("making the generator of tokens: %w", err)
	}
	controller, err := serviceaccountcontroller.NewTokensController(klog.FromContext(ctx),
		c.InformerFactory.Core().V1().ServiceAccounts(), c.InformerFactory.Core().V1().Secrets(), client,
		serviceaccountcontroller.TokensControllerOptions{TokenGenerator: generator, RootCA: authority})
	if err != nil {
		return nil, fmt.Errorf("making the controller of tokens: %w", err)
	}
	return tokenController{TokensController: controller, workers: int(settings.ConcurrentSATokenSyncs)}, nil
}

// policyStatusController checks the types in ValidatingAdmissionPolicies.
type policyStatusController struct {
	*validatingadmissionpolicystatus.Controller
	workers int
}

// Name is the controller's.
func (c policyStatusController) Name() string { return names.ValidatingAdmissionPolicyStatusController }

// Run runs it until the context ends.
func (c policyStatusController) Run(ctx context.Context) { c.Controller.Run(ctx, c.workers) }

func newPolicyStatusController(c app.ControllerContext) (app.Controller, error) {
	discovery, err := c.ClientBuilder.DiscoveryClient(names.ValidatingAdmissionPolicyStatusController)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	client, err := c.ClientBuilder.Client(names.ValidatingAdmissionPolicyStatusController)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	checker := &validating.TypeChecker{
		SchemaResolver: schemaResolver().Combine(&resolver.ClientDiscoveryResolver{Discovery: discovery}), RestMapper: c.RESTMapper,
	}
	informer := c.InformerFactory.Admissionregistration().V1().ValidatingAdmissionPolicies()
	controller, err := validatingadmissionpolicystatus.NewController(informer, client.AdmissionregistrationV1().ValidatingAdmissionPolicies(), checker)
	if err != nil {
		return nil, fmt.Errorf("making the controller of policies: %w", err)
	}
	return policyStatusController{Controller: controller, workers: int(c.ComponentConfig.ValidatingAdmissionPolicyStatusController.ConcurrentPolicySyncs)}, nil
}

// controllerHealth are the checks of the controllers.
type controllerHealth struct{ checks []healthz.HealthChecker }

// AddHealthChecker takes the checks.
func (h *controllerHealth) AddHealthChecker(checks ...healthz.HealthChecker) {
	h.checks = append(h.checks, checks...)
}

func (h *controllerHealth) check(context.Context) error {
	var failures []error
	for _, check := range h.checks {
		if err := check.Check(nil); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", check.Name(), err))
		}
	}
	return errors.Join(failures...)
}
