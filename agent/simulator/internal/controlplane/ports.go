package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/portreserve"
)

const (
	// keptPortPatience is how long a start waits for the port of the earlier
	// one: the children of a supervisor that was killed end a moment later.
	keptPortPatience = 3 * time.Second
	keptPortPoll     = 50 * time.Millisecond
)

// reservations are the ports that this cluster holds, by component.
type reservations map[string]*portreserve.Reservation

// reservePorts takes all ports and records the API server's in the state.
func (o *Options) reservePorts(ctx context.Context, cluster *state) (reservations, error) {
	held := reservations{}
	apiServer, err := o.reserveAPIServerPort(ctx, cluster)
	if err != nil {
		return nil, err
	}
	held[APIServer] = apiServer
	cluster.APIServerPort = apiServer.Port()
	if o.Shared != nil {
		// There they have no ports: each one costs instances of inotify, of which a user has few.
		return held, nil
	}
	for _, component := range []string{ControllerManager, Scheduler} {
		reservation, err := portreserve.Reserve(loopback, 0)
		if err != nil {
			held.releasePorts()
			return nil, fmt.Errorf("reserving a port for %s: %w", component, err)
		}
		held[component] = reservation
	}
	return held, nil
}

// reserveAPIServerPort takes the port that was asked for now or earlier, or
// the one that was chosen earlier, or a free one. Only a chosen port may be
// replaced by another when it is taken.
func (o *Options) reserveAPIServerPort(ctx context.Context, cluster *state) (*portreserve.Reservation, error) {
	if o.APIServerPort != nil && *o.APIServerPort != 0 {
		cluster.APIServerPort, cluster.APIServerPortGiven = *o.APIServerPort, true
	} else if o.APIServerPort != nil {
		// An explicit 0 takes back that a port was asked for.
		cluster.APIServerPortGiven = false
	}
	if cluster.APIServerPort == 0 {
		return portreserve.Reserve(o.Listen, 0)
	}
	reservation, err := reserveKept(ctx, o.Listen, cluster.APIServerPort)
	switch {
	case err == nil:
		return reservation, nil
	case !errors.Is(err, portreserve.ErrTaken):
		return nil, fmt.Errorf("reserving the API server's port: %w", err)
	case cluster.APIServerPortGiven:
		return nil, fmt.Errorf("%w: --apiserver-port=%d on %s is in use by another process: end that process, give another port with --apiserver-port, or let one be chosen with --apiserver-port=0", ErrPortTaken, cluster.APIServerPort, o.Listen)
	}
	fmt.Fprintf(o.Progress, "port %d of the earlier start is taken by another process, choosing another\n", cluster.APIServerPort)
	return portreserve.Reserve(o.Listen, 0)
}

// reserveKept returns the last attempt's error when its patience is over.
func reserveKept(ctx context.Context, listen netip.Addr, port int) (*portreserve.Reservation, error) {
	var reservation *portreserve.Reservation
	var last error
	err := wait.PollUntilContextTimeout(ctx, keptPortPoll, keptPortPatience, true, func(context.Context) (bool, error) {
		reservation, last = portreserve.Reserve(listen, port)
		return !errors.Is(last, portreserve.ErrTaken), nil
	})
	if last == nil && err != nil {
		// A stop came before the first attempt.
		last = err
	}
	return reservation, last
}

func (r reservations) portNumbers() map[string]int {
	ports := map[string]int{}
	for component, reservation := range r {
		ports[component] = reservation.Port()
	}
	return ports
}

func (r reservations) releasePorts() {
	for _, reservation := range r {
		_ = reservation.Release()
	}
}
