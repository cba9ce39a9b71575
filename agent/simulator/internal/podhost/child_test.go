package podhost_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/pack"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost"
	"github.com/hollowfleet/hollowfleet/apis/hollownode"
)

const (
	// childVariable holds the options of a podhost that this test program is to run instead of tests, so that a test can kill it.
	childVariable = "PODHOST_TEST_CHILD"
	// readyLine is what the child prints when it is ready.
	readyLine = "ready"
	// program is the name under which this test program is a hollow node.
	program = "hollow-node"
	// mostNodes is how many nodes a pack takes in its life.
	mostNodes = 40
)

func runChild() int {
	var options podhost.Options
	if err := json.Unmarshal([]byte(os.Getenv(childVariable)), &options); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	options.Ready = func() { fmt.Println(readyLine) }
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := podhost.Run(ctx, options); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// runPack is this test program as a pack of hollow nodes.
func runPack() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := pack.Serve(ctx, mostNodes, runScript); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// script is a hollow node that does what its Secret says in words.
type script struct {
	config, state, ip, plan string
	words                   []string
	broken                  atomic.Bool
}

func (s *script) has(word string) bool { return slices.Contains(s.words, word) }

func read(directory, name string) string {
	content, _ := os.ReadFile(filepath.Join(directory, name))
	return string(content)
}

func runScript(ctx context.Context, order pack.Order) (int, error) {
	s := &script{}
	flags := flag.NewFlagSet(program, flag.ContinueOnError)
	flags.StringVar(&s.config, "config-dir", "", "")
	flags.StringVar(&s.state, "state-dir", "", "")
	flags.StringVar(&s.ip, "bind-address", "", "")
	flags.StringVar(&s.plan, "disruptions-file", "", "")
	if err := flags.Parse(order.Args); err != nil {
		return 2, nil //nolint:nilerr // The exit code says it.
	}
	s.words = strings.Fields(read(s.config, "script"))
	if s.has("alone") && !order.Alone {
		return 0, fmt.Errorf("%w: it says so", pack.ErrAlone)
	}
	order.Started()
	runs, _ := strconv.Atoi(read(s.state, "runs"))
	if err := os.WriteFile(filepath.Join(s.state, "runs"), []byte(strconv.Itoa(runs+1)), 0o600); err != nil {
		fmt.Fprintln(order.Log, err)
		return 1, nil
	}
	fmt.Fprintf(order.Log, "process %d run %d at %s alone %t\n", os.Getpid(), runs, s.ip, order.Alone)
	for _, file := range []string{s.config + "/script", s.plan} {
		if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Chmod(file, 0o600)); err == nil && s.has("write") {
			fmt.Fprintln(order.Log, "changed", file)
		}
	}
	return s.live(ctx, order)
}

// live does what the words say until the node ends.
func (s *script) live(ctx context.Context, order pack.Order) (int, error) {
	for _, word := range s.words {
		if code, isExit := strings.CutPrefix(word, "exit-"); isExit {
			return strconv.Atoi(code)
		}
	}
	switch {
	case s.has("die"):
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case s.has("panic"):
		go panic("a bug of this node")
	case s.has("identity"):
		for line := range strings.Lines(read("/proc/self", "status")) {
			if name, _, _ := strings.Cut(line, ":"); slices.Contains([]string{"Uid", "Gid", "Groups", "NoNewPrivs", "CapPrm", "CapEff", "CapAmb"}, name) {
				fmt.Fprint(order.Log, line)
			}
		}
	}
	server := &http.Server{Addr: net.JoinHostPort(s.ip, strconv.Itoa(hollownode.HealthPort)), Handler: s.health()}
	go server.ListenAndServe() //nolint:errcheck // A probe shows it.
	defer server.Close()
	done, last := ctx.Done(), ""
	if s.has("stubborn") {
		done = nil
	}
	for {
		if now := fmt.Sprintf("value <%s> plan <%s>", read(s.config, "value"), read("", s.plan)); now != last {
			fmt.Fprintln(order.Log, now)
			last = now
		}
		select {
		case <-done:
			fmt.Fprintln(order.Log, "asked to end")
			return 0, nil
		case <-order.Kill:
			return pack.ExitKilled, nil
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// health is what the node says of itself. Its paths /break and /mend change that, in part for /readyz alone.
func (s *script) health() http.Handler {
	var dead atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("/break", func(http.ResponseWriter, *http.Request) { s.broken.Store(true) })
	mux.HandleFunc("/kill", func(http.ResponseWriter, *http.Request) { dead.Store(true) })
	mux.HandleFunc("/mend", func(http.ResponseWriter, *http.Request) { s.broken.Store(false) })
	answer := func(flag *atomic.Bool) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if flag.Load() || s.has("never") {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}
	}
	mux.HandleFunc("/readyz", answer(&s.broken))
	mux.HandleFunc("/healthz", answer(&dead))
	return mux
}

func quantity(text string) resource.Quantity { return resource.MustParse(text) }
