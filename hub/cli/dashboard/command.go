// Package dashboard is "kubectl hollow dashboard": pages about a fleet, for the user's own browser and with the user's own rights.
package dashboard

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
	"github.com/hollowfleet/hollowfleet/hub/cli/overview"
)

const (
	// memoryLimit is from which size on the program collects its garbage more often.
	memoryLimit = 80 << 20
	// firstAnswer is how long the hub's API server may take to answer at the start.
	firstAnswer = 10 * time.Second
	// shutdownTime is how long requests may take that are being answered at the end.
	shutdownTime = time.Second
)

// options are the flags of the command.
type options struct {
	port     int
	readOnly bool
}

// NewCommand returns "dashboard".
func NewCommand(hub *cmdutil.Hub) *cobra.Command {
	o := &options{}
	command := &cobra.Command{
		Use: "dashboard", Short: "Serve pages about the fleet to the browser on this machine",
		Long: `Serve pages about the fleet to the browser on this machine, until interrupted: all clusters and what freezes them, each cluster down
to its Nodes, the waves of each fleet, freezes and disruptions over time, and load tests with their reports. The pages follow what
happens.

The program reads with your own rights: kinds that you may not read are named on the pages, and -n shows one namespace. It listens on 127.0.0.1 only, and answers
only to who knows the address that it prints, which has a new random token at each start. Rollouts can be approved, paused, resumed
and retried there, if you may do so; --read-only leaves that out.`,
		Example: `  kubectl hollow dashboard

  # Always on the same port, and without any buttons
  kubectl hollow dashboard --port 9090 --read-only`,
		Args: cmdutil.Args(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error { return o.run(command.Context(), hub) },
	}
	command.AddCommand(newServe(hub))
	command.Flags().IntVar(&o.port, "port", 0, "port of 127.0.0.1 to listen on; 0 takes a free one")
	command.Flags().BoolVar(&o.readOnly, "read-only", false, "offer no changes, whatever your rights are")
	return command
}

func (o *options) run(ctx context.Context, hub *cmdutil.Hub) error {
	if o.port < 0 || o.port > 65535 {
		return cmdutil.Usage("--port: want a number from 0 to 65535, got %d", o.port)
	}
	c, err := hub.Client()
	if err != nil {
		return err
	}
	scope, err := proveAnswer(ctx, hub, c)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", o.port))
	if err != nil {
		return fmt.Errorf("listening for the browser: %w: choose another --port", err)
	}
	token, err := newToken()
	if err != nil {
		return err
	}
	config, err := hub.Config()
	if err != nil {
		return err
	}
	debug.SetMemoryLimit(memoryLimit)
	s := newLocalServer(hub, newStore(c, scope), token, listener.Addr().String(), config.Host)
	s.readOnly = o.readOnly
	hub.Say("%s", s.address())
	hub.Note("Open this address in a browser on this machine. Anyone who knows it has your rights on the hub. Interrupt to end.")
	return s.serve(ctx, listener)
}

// proveAnswer finds out at once that the hub's API server does not answer, or is not a hub, and what the user may see.
func proveAnswer(ctx context.Context, hub *cmdutil.Hub, c client.WithWatch) (overview.Scope, error) {
	asking, cancel := context.WithTimeout(ctx, firstAnswer)
	defer cancel()
	_, err := overview.ObserveHub(asking, c, time.Now())
	scope := overview.Scope{}
	if err == nil {
		scope, err = overview.FindScope(asking, hub, c)
	}
	switch {
	case ctx.Err() != nil:
		return scope, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return scope, fmt.Errorf("the hub's API server has not answered within %s: %w", firstAnswer, err)
	case err != nil:
		return scope, err
	}
	return scope, checkKinds(c)
}

// checkKinds finds an API server that has none of Hollowfleet's kinds, and so is not a hub.
func checkKinds(c client.Client) (err error) {
	for _, kind := range health.Kinds {
		if _, err = c.RESTMapper().RESTMapping(v1alpha1.GroupVersion.WithKind(kind.Kind).GroupKind()); !meta.IsNoMatchError(err) {
			return err
		}
	}
	return err
}

// newToken returns a random text of 256 bits.
func newToken() (string, error) {
	random := make([]byte, 32)
	if _, err := rand.Read(random); err != nil {
		return "", fmt.Errorf("making a token: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(random), nil
}

// serve follows the fleet and answers until ctx ends.
func (s *server) serve(ctx context.Context, listener net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { s.store.run(ctx) })
	return serveWeb(ctx, listener, s, nil)
}

// serveWeb answers browsers until ctx ends.
func serveWeb(ctx context.Context, listener net.Listener, handler http.Handler, errorLog *log.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	web := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, ErrorLog: errorLog,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	running.Go(func() {
		<-ctx.Done()
		ending, stop := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
		defer stop()
		if web.Shutdown(ending) != nil {
			_ = web.Close()
		}
	})
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the browser: %w", err)
	}
	return ctx.Err()
}
