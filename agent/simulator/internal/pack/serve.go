package pack

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"runtime/pprof"
	"sync"
	"syscall"
)

const (
	// labelName is the label that all goroutines of a node have, and TraceLabels the setting of GODEBUG with which the trace of a panic
	// has labels.
	labelName   = "node"
	TraceLabels = "tracebacklabels=1"
)

// culprit finds the label in the first header of a trace. Go quotes what has more than letters and digits.
var culprit = regexp.MustCompile(`goroutine \d+ [^\n]*labels:\{[^}\n]*"?` + labelName + `"?: "?([^"}\n]+)"?`)

// Culprit returns the Name of the node in which a panic has ended a pack, from the pack's log; empty if it does not say.
func Culprit(log string) string {
	if found := culprit.FindStringSubmatch(log); found != nil {
		return found[1]
	}
	return ""
}

// Run runs one node until it ends and returns its exit code. It ends when ctx does, or as if killed when kill is closed. It calls
// started once it will run, or returns an error that wraps ErrRefused or ErrAlone before.
type Run func(ctx context.Context, node Order) (exit int, err error)

// Order is one node for Run.
type Order struct {
	Args    []string
	Alone   bool
	Log     io.Writer
	Kill    <-chan struct{}
	Started func()
}

// Serve runs nodes that are ordered over the socket of the working directory, until ctx ends or there has been a node and there is
// none any more. More than most nodes in all are refused, so that the pack comes to its end: each that has ended leaves a remainder.
func Serve(ctx context.Context, most int, run Run) error {
	if err := os.Remove(Socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing the socket of an earlier pack: %w", err)
	}
	listener, err := net.Listen("unix", Socket)
	if err != nil {
		return fmt.Errorf("listening for nodes: %w", err)
	}
	if err := os.Chmod(Socket, 0o600); err != nil {
		return errors.Join(fmt.Errorf("protecting the socket: %w", err), listener.Close())
	}
	s := &server{run: run, most: most, listener: listener}
	stop := context.AfterFunc(ctx, s.closeListener)
	defer stop()
	var nodes sync.WaitGroup
	defer nodes.Wait()
	for {
		connection, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("waiting for nodes: %w", err)
		}
		nodes.Go(func() { s.serveNode(ctx, connection) })
	}
}

type server struct {
	run      Run
	most     int
	listener net.Listener

	mu      sync.Mutex
	taken   int // nodes in all
	running int
}

func (s *server) closeListener() { _ = s.listener.Close() }

// admitNode counts a node in, and says why there may be no more.
func (s *server) admitNode() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken >= s.most {
		return fmt.Sprintf("it has had its %d nodes", s.most)
	}
	s.taken++
	s.running++
	return ""
}

// dismissNode counts a node out, and ends the pack with the last one.
func (s *server) dismissNode() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	if s.running == 0 {
		s.closeListener()
	}
}

// conversation is a connection on which several goroutines report one node.
type conversation struct {
	mu      sync.Mutex
	encoder *gob.Encoder
}

func (c *conversation) sendEvent(event Event) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.encoder.Encode(event)
}

// Write sends a part of the log.
func (c *conversation) Write(text []byte) (int, error) {
	if err := c.sendEvent(Event{Log: text}); err != nil {
		return 0, err
	}
	return len(text), nil
}

// serveNode runs the node of one connection.
func (s *server) serveNode(ctx context.Context, connection net.Conn) {
	defer connection.Close()
	c := &conversation{encoder: gob.NewEncoder(connection)}
	decoder := gob.NewDecoder(connection)
	var start Start
	if err := decoder.Decode(&start); err != nil {
		return
	}
	if reason := s.admitNode(); reason != "" {
		_ = c.sendEvent(Event{Refused: reason, Full: true})
		return
	}
	defer s.dismissNode()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	kill := make(chan struct{})
	go obeySignals(decoder, cancel, sync.OnceFunc(func() { close(kill) }))
	var exit int
	var err error
	pprof.Do(ctx, pprof.Labels(labelName, start.Name), func(ctx context.Context) {
		exit, err = s.run(ctx, Order{Args: start.Args, Alone: start.Alone, Log: c, Kill: kill, Started: func() { _ = c.sendEvent(Event{Started: true}) }})
	})
	if alone := errors.Is(err, ErrAlone); alone || errors.Is(err, ErrRefused) {
		_ = c.sendEvent(Event{Refused: err.Error(), Alone: alone})
		return
	}
	_ = c.sendEvent(Event{Ended: true, Exit: exit}) // Who has gone is told nothing.
}

// obeySignals follows the signals of one connection, whose end kills the node.
func obeySignals(decoder *gob.Decoder, end, kill func()) {
	defer kill()
	for {
		var signal int
		if decoder.Decode(&signal) != nil {
			return
		}
		if signal == int(syscall.SIGKILL) {
			return
		}
		if signal == int(syscall.SIGTERM) || signal == int(syscall.SIGINT) {
			end()
		}
	}
}
