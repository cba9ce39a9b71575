package hub

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/hollowfleet/hollowfleet/internal/serving"
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
)

// headerTimeout is how long a client of the health endpoint may take to say what it wants.
const headerTimeout = 5 * time.Second

// endpoints are where a hub serves health and metrics.
type endpoints struct {
	certificate *serving.Certificate
	// listener is that of the health endpoint; nil if there is none.
	listener       net.Listener
	health, readyz healthz.Handler
}

// newEndpoints opens the port of the health endpoint and reads the certificate.
func newEndpoints(options Options) (*endpoints, error) {
	certificate, err := serving.NewCertificate(options.Serving, clock.RealClock{}, func(err error) {
		options.Logger.Error(err, "Keeping the previous serving certificate")
	})
	if err != nil {
		return nil, err
	}
	e := &endpoints{
		certificate: certificate,
		health:      healthz.Handler{Checks: map[string]healthz.Checker{"ping": healthz.Ping}},
		readyz:      healthz.Handler{Checks: map[string]healthz.Checker{}},
	}
	if options.HealthAddress == "" || options.HealthAddress == telemetry.NoAddress {
		return e, nil
	}
	if e.listener, err = net.Listen("tcp", options.HealthAddress); err != nil {
		return nil, fmt.Errorf("opening the port of the health endpoint: %w", err)
	}
	return e, nil
}

// metricsOptions are the options of the metrics endpoint.
func (e *endpoints) metricsOptions(address string) metricsserver.Options {
	options := metricsserver.Options{BindAddress: address}
	if e.certificate != nil {
		options.SecureServing, options.TLSOpts = true, []func(*tls.Config){e.certificate.Configure}
	}
	return options
}

// addTo lets hub serve health, elected or not, and follow the certificate. All checks must be there by then.
func (e *endpoints) addTo(hub manager.Manager) error {
	problems := []error{hub.Add(e.certificate)}
	if e.listener != nil {
		mux := http.NewServeMux()
		for path, handler := range map[string]http.Handler{"/healthz": &e.health, "/readyz": &e.readyz} {
			mux.Handle(path, http.StripPrefix(path, handler))
			mux.Handle(path+"/", http.StripPrefix(path, handler))
		}
		problems = append(problems, hub.Add(&manager.Server{
			Name: "health", Listener: e.certificate.Wrap(e.listener),
			Server: &http.Server{Handler: mux, ReadHeaderTimeout: headerTimeout, ErrorLog: serving.ErrorLog(hub.GetLogger())},
		}))
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("adding the endpoints: %w", err)
	}
	return nil
}

// closePorts closes what addTo has not passed on.
func (e *endpoints) closePorts() {
	if e.listener != nil {
		_ = e.listener.Close() // It may be closed already.
	}
}
