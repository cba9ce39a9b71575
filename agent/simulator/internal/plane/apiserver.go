package plane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/tools/cache"
	cliflag "k8s.io/component-base/cli/flag"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
)

func runAPIServer(ctx context.Context, run *Run) error {
	server := options.NewServerRunOptions()
	if err := parseFlags(server.Flags(), run.component.Args); err != nil {
		return err
	}
	listener, err := listenSevered(server.SecureServing.SecureServingOptions)
	if err != nil {
		return err
	}
	defer listener.Close()
	defer listener.endConnections()
	run.onSever(listener.endConnections)
	server.SecureServing.Listener = listener
	name, err := cache.NewInformerName(run.label)
	if err != nil {
		return fmt.Errorf("naming informers: %w", err)
	}
	defer name.Release()
	server.InformerName = name
	completed, err := server.Complete(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(completed.Validate()...); err != nil {
		return err
	}
	// What it answers is asked over its port.
	run.setHealth(func(context.Context) error { return nil })
	return serveAPI(ctx, completed)
}

// serveAPI does what app.Run does, with metrics of this API server alone and what it describes with from the process.
func serveAPI(ctx context.Context, completed options.CompletedOptions) error {
	config, err := newServerConfig(completed)
	if err != nil {
		return err
	}
	counts := newRequestCounts()
	for _, generic := range []*genericapiserver.Config{config.KubeAPIs.ControlPlane.Generic, &config.ApiExtensions.GenericConfig.Config, &config.Aggregator.GenericConfig.Config} {
		generic.EnableMetrics = false
	}
	// The chain of the aggregator is in front of all three.
	chain := config.Aggregator.GenericConfig.BuildHandlerChainFunc
	config.Aggregator.GenericConfig.BuildHandlerChainFunc = func(handler http.Handler, c *genericapiserver.Config) http.Handler {
		return chain(counts.countRequests(handler), c)
	}
	kinds := config.KubeAPIs.ControlPlane.Generic
	kinds.SkipOpenAPIInstallation = true
	completedConfig, err := config.Complete()
	if err != nil {
		return err
	}
	server, err := app.CreateServerChain(completedConfig)
	if err != nil {
		return err
	}
	server.GenericAPIServer.Handler.NonGoRestfulMux.Handle("/metrics", counts.handler())
	if err := routes.shareAmong(server.GenericAPIServer); err != nil {
		return err
	}
	if err := openAPI.serveSpecs(server.GenericAPIServer.NextDelegate(), kinds.OpenAPIConfig, kinds.OpenAPIV3Config); err != nil {
		return err
	}
	prepared, err := server.PrepareRun()
	if err != nil {
		return err
	}
	if err := restOpenAPI(server); err != nil {
		return err
	}
	if err := forgetCallers(server.GenericAPIServer); err != nil {
		return err
	}
	// All specs are built. One that is built later asks for definitions again.
	kinds.OpenAPIV3Config.Definitions = nil
	return prepared.Run(ctx)
}

// newServerConfig is app.NewConfig with definitions of kinds that all planes share.
func newServerConfig(opts options.CompletedOptions) (*app.Config, error) {
	schemes := []*runtime.Scheme{legacyscheme.Scheme, apiextensionsapiserver.Scheme, aggregatorscheme.Scheme}
	generic, informers, storage, err := controlplaneapiserver.BuildGenericConfig(opts.CompletedOptions, schemes, controlplane.DefaultAPIResourceConfigSource(), openAPI.copyDefinitions, opts.InformerName)
	if err != nil {
		return nil, err
	}
	generic.OpenAPIConfig.GetOperationIDAndTagsFromRoute = identifyOperation
	generic.OpenAPIV3Config.GetOperationIDAndTagsFromRoute = identifyOperation
	config := &app.Config{Options: opts}
	kinds, resolver, admission, err := app.CreateKubeAPIServerConfig(opts, generic, informers, storage)
	if err != nil {
		return nil, err
	}
	config.KubeAPIs = kinds
	kinds.ControlPlane.Generic.RESTOptionsGetter = cachedStorage{kinds.ControlPlane.Generic.RESTOptionsGetter}
	generic, informers = kinds.ControlPlane.Generic, kinds.ControlPlane.VersionedInformers
	authentication := webhook.NewDefaultAuthenticationInfoResolverWrapper(kinds.ControlPlane.ProxyTransport, generic.EgressSelector, generic.LoopbackClientConfig, generic.TracerProvider)
	config.ApiExtensions, err = controlplaneapiserver.CreateAPIExtensionsConfig(*generic, informers, admission, opts.CompletedOptions, opts.MasterCount, resolver, authentication)
	if err != nil {
		return nil, err
	}
	config.Aggregator, err = controlplaneapiserver.CreateAggregatorConfig(*generic, opts.CompletedOptions, informers, resolver, kinds.ControlPlane.ProxyTransport, kinds.ControlPlane.Extra.PeerProxy, admission)
	if err != nil {
		return nil, err
	}
	return config, nil
}

// parseFlags reads a component's command line.
func parseFlags(sets cliflag.NamedFlagSets, args []string) error {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, set := range sets.FlagSets {
		flags.AddFlagSet(set)
	}
	return flags.Parse(dropProcessFlags(args))
}

// severedListener is a listener whose connections end with it: a server that is stopped waits for those that are in use.
type severedListener struct {
	net.Listener
	mutex sync.Mutex
	open  map[*severedConn]bool
	ended bool
	// closed is closed by Close: a server panics if its listener fails before it closes it itself.
	closed chan struct{}
	once   sync.Once
}

// listenSevered listens where the flags say. The port is held by a reservation of the supervisor, which sharing makes room for.
func listenSevered(serving *genericoptions.SecureServingOptions) (*severedListener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		controlErr := raw.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		})
		return errors.Join(controlErr, err)
	}}
	listener, _, err := genericoptions.CreateListener("tcp", net.JoinHostPort(serving.BindAddress.String(), strconv.Itoa(serving.BindPort)), config)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	return &severedListener{Listener: listener, open: map[*severedConn]bool{}, closed: make(chan struct{})}, nil
}

func (l *severedListener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, l.waitClosed(err)
	}
	conn := &severedConn{Conn: accepted, listener: l}
	if !l.addConn(conn) {
		accepted.Close()
		return nil, l.waitClosed(net.ErrClosed)
	}
	return conn, nil
}

// addConn reports whether the connection may stay.
func (l *severedListener) addConn(conn *severedConn) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if !l.ended {
		l.open[conn] = true
	}
	return !l.ended
}

// waitClosed returns the error when it may be returned.
func (l *severedListener) waitClosed(err error) error {
	l.mutex.Lock()
	ended := l.ended
	l.mutex.Unlock()
	if ended {
		<-l.closed
	}
	return err
}

// Close is called by the server.
func (l *severedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	if err := l.Listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// endConnections closes the listener and all its connections.
func (l *severedListener) endConnections() {
	l.mutex.Lock()
	l.ended = true
	open := l.open
	l.open = map[*severedConn]bool{}
	l.mutex.Unlock()
	l.Listener.Close()
	for conn := range open {
		conn.Conn.Close()
	}
}

type severedConn struct {
	net.Conn
	listener *severedListener
}

func (c *severedConn) Close() error {
	c.listener.mutex.Lock()
	delete(c.listener.open, c)
	c.listener.mutex.Unlock()
	return c.Conn.Close()
}
