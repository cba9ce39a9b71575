// Command workload is what runs in the pods of make fidelity on a real node. Its flags are named as the annotations with which a hollow
// node is told to do the same, less "hollowfleet.io/".
package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

type flags struct {
	startedAfter, readyAfter, livenessFailsAfter, terminatesAfter, exitAfter time.Duration
	exitCode                                                                 int
	memoryUsage, log, write                                                  string
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "exit" {
		code, _ := strconv.Atoi(os.Args[2]) // Anything but a number is 0.
		os.Exit(code)
	}
	var f flags
	flag.DurationVar(&f.startedAfter, "started-after", 0, "until then /started fails")
	flag.DurationVar(&f.readyAfter, "ready-after", 0, "until then /ready fails")
	flag.DurationVar(&f.livenessFailsAfter, "liveness-fails-after", 0, "from then on /live fails; 0 for not at all")
	flag.DurationVar(&f.terminatesAfter, "terminates-after", 0, "how long it takes to end after SIGTERM, with exit code 143")
	flag.DurationVar(&f.exitAfter, "exit-after", 0, "when it ends by itself; 0 for not at all")
	flag.IntVar(&f.exitCode, "exit-code", 0, "its exit code then")
	flag.StringVar(&f.memoryUsage, "memory-usage", "0", "how much memory it takes")
	flag.StringVar(&f.log, "log", "", "a line to log")
	flag.StringVar(&f.write, "write", "", "a file of 4 MiB to write")
	flag.Parse()
	code, err := f.run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
	}
	os.Exit(code)
}

// usageCode is the exit code of a program that cannot do what its flags say.
const usageCode = 2

// run returns the exit code once the program is told to end, or ends by itself.
func (f flags) run() (code int, err error) {
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	f.serve(time.Now())
	if f.log != "" {
		fmt.Println(f.log)
	}
	if f.write != "" {
		if err := os.WriteFile(f.write, make([]byte, 4<<20), 0o600); err != nil {
			return usageCode, err
		}
	}
	quantity, err := resource.ParseQuantity(f.memoryUsage)
	if err != nil {
		return usageCode, fmt.Errorf("--memory-usage: %w", err)
	}
	held := make([]byte, quantity.Value())
	for i := 0; i < len(held); i += 4096 {
		held[i] = 1 // A page that is not written takes no memory.
	}
	var exit <-chan time.Time
	if f.exitAfter > 0 {
		exit = time.After(f.exitAfter)
	}
	select {
	case <-exit:
		return f.exitCode + int(held0(held)), nil
	case <-terminated:
		<-time.After(f.terminatesAfter)
		return 143, nil
	}
}

// held0 keeps the memory in use.
func held0(held []byte) byte {
	if len(held) == 0 {
		return 0
	}
	return held[1]
}

// serve answers probes.
func (f flags) serve(started time.Time) {
	answer := func(path string, healthy func(since time.Duration) bool) {
		http.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			if !healthy(time.Since(started)) {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
	}
	answer("/started", func(since time.Duration) bool { return since >= f.startedAfter })
	answer("/ready", func(since time.Duration) bool { return since >= f.readyAfter })
	answer("/live", func(since time.Duration) bool { return f.livenessFailsAfter == 0 || since < f.livenessFailsAfter })
	server := &http.Server{Addr: ":8080", ReadHeaderTimeout: time.Second}
	go func() { fmt.Fprintln(os.Stderr, server.ListenAndServe()) }()
}
