package agent_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// The tests that run side by side wait more than they work.
	if err := flag.Set("test.parallel", "4"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	agenttest.Main(m)
}
