package controlplane

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// objectPoll is the time between two looks for an object that a controller makes.
	objectPoll = 100 * time.Millisecond
	// logLines of a component's log are shown when it does not come up.
	logLines = 10
)

// run starts the components, waits for the end of the context and stops them.
func (s *supervisor) run(ctx context.Context) error {
	unitsCtx, endUnits := context.WithCancel(context.WithoutCancel(ctx))
	var loops sync.WaitGroup
	for _, unit := range s.units {
		loops.Go(func() { unit.Run(unitsCtx) })
	}
	loops.Go(func() { s.renewCertificates(unitsCtx) })
	loops.Go(func() { s.watchSpace(unitsCtx) })
	control, err := s.serveControl()
	if err == nil {
		err = s.startComponents(ctx)
	}
	if err == nil {
		s.started.Store(true)
		s.writeReady()
		s.printStep("cluster %s ready in %s: %s", s.cluster.Name, formatSeconds(s.begun), s.cluster.serverURL())
		s.printStep("kubeconfig: %s", s.layout.AdminKubeconfig())
		if s.options.Ready != nil {
			s.options.Ready()
		}
		s.serveUntilDone(ctx)
	}
	if ctx.Err() != nil {
		// A stop during the start is an ordered stop as well.
		err = nil
		s.printStep("stopping%s", stopReason(ctx))
	}
	stopErr := s.stopComponents(context.WithoutCancel(ctx), control)
	endUnits()
	switch {
	case stopErr == nil:
		loops.Wait()
	case s.options.Shared != nil:
		// The process keeps running, and the component in it keeps the data in use.
		s.printStep("%v: %s stays in use until it has", stopErr, s.layout.Root())
		loops.Wait()
		return err
	default:
		// A process may be left that the kernel cannot end, and its loop would wait for it.
	}
	return errors.Join(err, stopErr)
}

// serveUntilDone waits for the end of the context, and upgrades the components meanwhile if a file says so. It returns when nothing starts
// a component any more.
func (s *supervisor) serveUntilDone(ctx context.Context) {
	var following sync.WaitGroup
	if s.options.EmulatedVersionFile != "" {
		following.Go(func() { s.followVersion(ctx) })
		following.Go(func() { s.reportVersions(ctx) })
	}
	<-ctx.Done()
	following.Wait()
}

func stopReason(ctx context.Context) string {
	if cause := context.Cause(ctx); errors.Is(cause, errParentGone) {
		return ": " + cause.Error()
	}
	return ""
}

// startComponents starts the components, each one when those that it needs are healthy.
func (s *supervisor) startComponents(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, s.options.ReadyTimeout)
	defer cancel()
	err := s.startInOrder(limited)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w within %s: %w", ErrNotReady, s.options.ReadyTimeout, err)
	}
	return fmt.Errorf("%w: %w", ErrNotReady, err)
}

func (s *supervisor) startInOrder(ctx context.Context) error {
	if err := s.bringUp(ctx, Etcd); err != nil {
		return err
	}
	if err := s.bringUp(ctx, APIServer); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	jobs := []func() error{
		func() error { return s.bringUp(ctx, ControllerManager) },
		func() error { return s.bringUp(ctx, Scheduler) },
		func() error { return s.startPodhost(ctx) },
		func() error { return s.allowKubeletAccess(ctx) },
		func() error { return s.waitDefaultAccount(ctx) },
		func() error { return s.applyManifests(ctx) },
	}
	if !s.options.hasComponent(APIServer) {
		return nil
	}
	results := make(chan error, len(jobs))
	for _, job := range jobs {
		go func() { results <- job() }()
	}
	var first error
	for range jobs {
		if err := <-results; err != nil && first == nil {
			// The others fail as well now, for no reason of their own.
			first = err
			cancel()
		}
	}
	return first
}

// bringUp starts a component and waits until it is healthy. It does nothing if
// this cluster has no such component.
func (s *supervisor) bringUp(ctx context.Context, component string) error {
	unit, ok := s.units[component]
	if !ok {
		return nil
	}
	begun := time.Now()
	unit.Start()
	if err := unit.WaitHealthy(ctx); err != nil {
		if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return err
		}
		return s.explainFailure(context.WithoutCancel(ctx), component, err)
	}
	s.printStep("%s ready in %s", component, formatSeconds(begun))
	return nil
}

// explainFailure adds what the component is known to have said.
func (s *supervisor) explainFailure(ctx context.Context, component string, err error) error {
	if health := s.checks[component](ctx); health != nil {
		err = fmt.Errorf("%w (%w)", err, health)
	}
	log, ok := s.logs[component]
	if !ok {
		return err
	}
	return fmt.Errorf("%w\nlast lines of %s:\n%s", err, log.Path(), log.Tail(logLines))
}

// waitDefaultAccount waits for the ServiceAccount without which no pod can be
// made in namespace default. The controller manager makes it.
func (s *supervisor) waitDefaultAccount(ctx context.Context) error {
	if !s.options.hasComponent(ControllerManager) {
		return nil
	}
	begun := time.Now()
	err := wait.PollUntilContextCancel(ctx, objectPoll, true, func(ctx context.Context) (bool, error) {
		_, err := s.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the default ServiceAccount: %w", err)
	}
	s.printStep("default ServiceAccount there in %s", formatSeconds(begun))
	return nil
}

// allowKubeletAccess lets the API server use the kubelets' APIs for logs and
// exec, as the installers of real clusters do.
func (s *supervisor) allowKubeletAccess(ctx context.Context) error {
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "simcluster:" + kubeletClient},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:kubelet-api-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: kubeletClient}},
	}
	var last error
	err := wait.PollUntilContextCancel(ctx, objectPoll, true, func(ctx context.Context) (bool, error) {
		_, last = s.client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
		return last == nil || apierrors.IsAlreadyExists(last), nil
	})
	if err != nil {
		return fmt.Errorf("allowing the API server to use kubelets: %w", errors.Join(err, last))
	}
	return nil
}

// stopComponents removes ready.json first, so that no client takes a cluster that is ending
// for a ready one, and then ends the components in order.
func (s *supervisor) stopComponents(ctx context.Context, control *controlServer) error {
	s.started.Store(false)
	s.readyFile.Lock()
	failures := []error{s.layout.removeReady()}
	s.readyFile.Unlock()
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if control != nil {
		control.closeSocket()
	}
	for _, group := range stopOrder {
		results := make(chan error, len(group))
		for _, component := range group {
			go func() { results <- s.takeDown(ctx, component) }()
		}
		for range group {
			failures = append(failures, <-results)
		}
	}
	return errors.Join(failures...)
}

func (s *supervisor) takeDown(ctx context.Context, component string) error {
	unit, ok := s.units[component]
	if !ok || unit.Status().PID == 0 {
		if ok {
			return unit.Stop(ctx)
		}
		return nil
	}
	begun := time.Now()
	if err := unit.Stop(ctx); err != nil {
		return err
	}
	s.printStep("%s stopped in %s", component, formatSeconds(begun))
	return nil
}

func formatSeconds(since time.Time) string { return fmt.Sprintf("%.1fs", time.Since(since).Seconds()) }
