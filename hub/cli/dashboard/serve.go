package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/serving"
)

// podAuthority has the authority of the API server in a pod with a ServiceAccount's token.
const podAuthority = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"

// serveFlags are those of "dashboard serve".
type serveFlags struct {
	ServeOptions
	address     string
	certificate serving.Options
}

// newServe returns "dashboard serve".
func newServe(hub *cmdutil.Hub) *cobra.Command {
	o := &serveFlags{}
	command := &cobra.Command{
		Use: "serve", Short: "Serve the pages to many users, each with their own rights",
		Long: `Serve the pages to many users, as a pod of the hub's chart does. Each signs in with a token for the hub's API server, or comes through
a proxy that sends one along as Authorization: Bearer. All is read, and changed if --allow-changes is given, with that token: the program
needs no right of its own and reads no kubeconfig, and no user sees more than the API server shows them. It serves with TLS alone, but on
loopback. --server and --certificate-authority name the API server; in a pod it is that of the pod.`,
		Example: `  # In a pod
  kubectl hollow dashboard serve --address :8443 --tls-self-signed`,
		Args: cmdutil.Args(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error { return o.run(command.Context(), hub) },
	}
	flags := command.Flags()
	flags.StringVar(&o.address, "address", "127.0.0.1:8443", "address to serve on; :8443 for all interfaces")
	flags.BoolVar(&o.AllowChanges, "allow-changes", false, "offer users to approve, pause, resume and retry rollouts, if they may; else the pages are read-only")
	flags.IntVar(&o.MostUsers, "most-users", DefaultMostUsers, "how many can look at the same time; each takes 60 MB of memory with 10,000 Machines")
	flags.StringVar(&o.certificate.CertFile, "tls-cert-file", "", "PEM file of the certificate to serve with, followed when it changes")
	flags.StringVar(&o.certificate.KeyFile, "tls-private-key-file", "", "PEM file of the key for --tls-cert-file")
	flags.BoolVar(&o.certificate.SelfSigned, "tls-self-signed", false, "serve with a certificate that is made in memory and renewed in time")
	return command
}

// podServer is the API server of the cluster in whose pod the program runs; empty elsewhere.
func podServer() string {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return ""
	}
	return "https://" + net.JoinHostPort(host, port)
}

// complete takes the API server from the flags that every command has, and reports all that is wrong with them.
func (o *serveFlags) complete(hub *cmdutil.Hub) error {
	o.APIServer, o.CAFile = *hub.Flags.APIServer, *hub.Flags.CAFile
	if o.APIServer == "" {
		o.APIServer = podServer()
	}
	if o.CAFile == "" {
		o.CAFile = podAuthority
	}
	problems := []error{o.certificate.Validate()}
	if o.APIServer == "" {
		problems = append(problems, errors.New("--server: name the URL of the hub's API server: this is not a pod"))
	}
	if o.MostUsers < 1 {
		problems = append(problems, fmt.Errorf("--most-users: want 1 or more, got %d", o.MostUsers))
	}
	host, _, err := net.SplitHostPort(o.address)
	if err != nil {
		problems = append(problems, fmt.Errorf("--address: %w", err))
	}
	if address := net.ParseIP(host); o.certificate == (serving.Options{}) && (address == nil || !address.IsLoopback()) {
		problems = append(problems, errors.New("--address: users send tokens: give --tls-cert-file or --tls-self-signed, or serve on 127.0.0.1"))
	}
	return cmdutil.AsUsage(errors.Join(problems...))
}

func (o *serveFlags) run(ctx context.Context, hub *cmdutil.Hub) error {
	if err := o.complete(hub); err != nil {
		return err
	}
	certificate, err := serving.NewCertificate(o.certificate, clock.RealClock{}, func(err error) { hub.Note("%s: %v", time.Now().UTC().Format(time.RFC3339), err) })
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.address)
	if err != nil {
		return fmt.Errorf("opening the port of the dashboard: %w", err)
	}
	o.Listener = certificate.Wrap(listener)
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	followed := make(chan error, 1)
	go func() { followed <- certificate.Start(running) }()
	hub.Note("Serving the dashboard of %s on %s", o.APIServer, listener.Addr())
	err = Serve(running, o.ServeOptions)
	cancel()
	if err = errors.Join(err, <-followed); ctx.Err() != nil {
		return nil // It was told to end.
	}
	return err
}
