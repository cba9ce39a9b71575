package controlplane_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/pack"
)

// hollowNode is the name under which this test program is a hollow node.
const hollowNode = "hollow-node"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != hollowNode {
		os.Exit(m.Run())
	}
	err := pack.Serve(context.Background(), 1, func(_ context.Context, order pack.Order) (int, error) {
		order.Started()
		<-order.Kill
		return pack.ExitKilled, nil
	})
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
