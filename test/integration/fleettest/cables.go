package fleettest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/internal/localfleet"
	"github.com/hollowfleet/hollowfleet/test/wire"
)

// Cables are the wires over which hub and agents reach their API servers. Tests and hollow nodes reach them directly.
type Cables struct {
	mu    sync.Mutex
	wires map[localfleet.Link]*wire.Wire
}

// StartCabled starts a fleet like Start, whose connections can be cut.
func StartCabled(ctx context.Context, options localfleet.Options) *Fleet {
	GinkgoHelper()
	cables := &Cables{wires: map[localfleet.Link]*wire.Wire{}}
	// Before the fleet's own cleanup, so after it.
	DeferCleanup(func() { Expect(cables.close()).To(Succeed()) })
	options.Route = cables.route
	fleet := Start(ctx, options)
	fleet.cables = cables
	return fleet
}

// route lays a wire for link when it is asked for the first time: a program that is started again finds the same one.
func (c *Cables) route(link localfleet.Link, address string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wires[link] == nil {
		laid, err := wire.New(address)
		if err != nil {
			return "", err
		}
		c.wires[link] = laid
	}
	return c.wires[link].Address(), nil
}

// of is the wire of a link.
func (c *Cables) of(link localfleet.Link) (*wire.Wire, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wires[link] == nil {
		return nil, fmt.Errorf("no cable leads from %s", link)
	}
	return c.wires[link], nil
}

func (c *Cables) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var problems []error
	for _, laid := range c.wires {
		problems = append(problems, laid.Close())
	}
	return errors.Join(problems...)
}
