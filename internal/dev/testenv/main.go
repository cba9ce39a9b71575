package testenv

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/onsi/gomega"
)

// poll is how often an Eventually asks the API server. Gomega's default of 10 ms keeps it busy with nothing else.
const poll = 50 * time.Millisecond

// Main is the body of a TestMain: it runs a package's tests against one API server, which it stores in environment.
func Main(m *testing.M, environment **Environment) {
	started, err := Start(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the API server:", err)
		os.Exit(1)
	}
	gomega.SetDefaultEventuallyPollingInterval(poll)
	*environment = started
	code := m.Run()
	if err := started.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the API server:", err)
		code = 1
	}
	os.Exit(code)
}
