package fleettest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/test/wire"
)

// Cables are the wires over which hub and agents reach their API servers, and API servers their etcds. Tests and hollow
// nodes reach API servers directly.
type Cables struct {
	mu    sync.Mutex
	wires map[localfleet.Link]*wire.Wire
}

// nodeGrace is how long the node controllers of a cabled fleet do without the heartbeats of a Node, in place of 50
// seconds. A controller whose API server was away comes back later each time, up to a minute, and would mark a Node as
// unreachable whose kubelet lives and has renewed its Lease: what the specs see shall come from Hollowfleet.
const nodeGrace = "node-monitor-grace-period=4m"

// StartCabled starts a fleet like Start, whose connections can be cut.
func StartCabled(ctx context.Context, options localfleet.Options) *Fleet {
	GinkgoHelper()
	cables := &Cables{wires: map[localfleet.Link]*wire.Wire{}}
	// Before the fleet's own cleanup, so after it.
	DeferCleanup(func() { Expect(cables.close()).To(Succeed()) })
	options.Cables = cables
	fleet := Start(ctx, options)
	fleet.cables = cables
	return fleet
}

// etcd is what an API server has its cable to.
const etcd localfleet.Server = "etcd"

// ControlPlaneArgs lets an API server reach its etcd over a wire.
func (c *Cables) ControlPlaneArgs(name, dir string) ([]string, error) {
	laid, err := wire.NewToSocket(filepath.Join(dir, "run", "etcd.sock"))
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wires[localfleet.Link{From: name, To: etcd}] = laid
	return []string{"--apiserver-arg", "etcd-servers=http://" + laid.Address(), "--controller-manager-arg", nodeGrace}, nil
}

// Route lays a wire for link when it is asked for the first time: a program that is started again finds the same one.
func (c *Cables) Route(link localfleet.Link, address string) (string, error) {
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
