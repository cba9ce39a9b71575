package localfleet

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
)

const (
	healthFlag  = "--health-address"
	metricsFlag = "--metrics-address"
)

// Endpoints are where a program of a fleet serves, on this machine only, without authentication.
type Endpoints struct {
	// Health is the base URL of /healthz and /readyz, and of an agent's /frozenz; Metrics is what Prometheus scrapes.
	Health  string `json:"health,omitempty"`
	Metrics string `json:"metrics,omitempty"`
}

// withEndpoints puts addresses for health and metrics before the arguments of the program called name, which may set others. A program
// that is started again has the same ones, so that who scrapes it need not look again, unless another process has taken them.
func (f *Fleet) withEndpoints(name string, args []string) ([]string, error) {
	f.recording.Lock()
	defer f.recording.Unlock()
	before := f.state.Endpoints[name]
	health, err := freeAddress(hostOf(before.Health))
	if err != nil {
		return nil, err
	}
	metrics, err := freeAddress(hostOf(before.Metrics))
	if err != nil {
		return nil, err
	}
	args = slices.Concat([]string{healthFlag, health, metricsFlag, metrics}, args)
	if f.state.Endpoints == nil {
		f.state.Endpoints = map[string]Endpoints{}
	}
	f.state.Endpoints[name] = endpointsOf(args)
	return args, nil
}

// endpointsOf are those that a command line asks for. One whose port only the program knows is left out.
func endpointsOf(args []string) Endpoints {
	scheme := "http://"
	if slices.ContainsFunc(args, func(arg string) bool {
		return strings.HasPrefix(arg, "--tls-") && !strings.HasSuffix(arg, "=false")
	}) {
		scheme = "https://"
	}
	e := Endpoints{}
	if address := lastValue(args, healthFlag); isFixed(address) {
		e.Health = scheme + address
	}
	if address := lastValue(args, metricsFlag); isFixed(address) {
		e.Metrics = scheme + address + "/metrics"
	}
	return e
}

// lastValue is the value that a program takes of a flag that may be there more than once.
func lastValue(args []string, flag string) string {
	value := ""
	for i, arg := range args {
		if arg == flag && i+1 < len(args) {
			value = args[i+1]
		} else if given, is := strings.CutPrefix(arg, flag+"="); is {
			value = given
		}
	}
	return value
}

// isFixed reports whether an address has a port that is known. "0" is for none, and port 0 for any.
func isFixed(address string) bool {
	_, port, err := net.SplitHostPort(address)
	return err == nil && port != "0"
}

// hostOf is the address in a URL of Endpoints.
func hostOf(url string) string {
	_, address, _ := strings.Cut(url, "://")
	return strings.TrimSuffix(address, "/metrics")
}

// freeAddress returns an address of this machine on which nothing listens: wanted, if that is one, or one with a host of its own, so
// that connections which others open do not take its port.
func freeAddress(wanted string) (string, error) {
	if wanted != "" {
		if listener, err := net.Listen("tcp4", wanted); err == nil {
			return wanted, listener.Close()
		}
	}
	host := net.IPv4(127, byte(rand.IntN(256)), byte(rand.IntN(256)), byte(2+rand.IntN(253))) //nolint:gosec // it need not be secret
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: host})
	if err != nil {
		return "", fmt.Errorf("looking for a free port on %s: %w", host, err)
	}
	return listener.Addr().String(), listener.Close()
}
