package wire_test

import (
	"bufio"
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/test/wire"
)

const (
	patience = time.Minute
	moment   = 300 * time.Millisecond
)

// echo answers every line with itself.
func echo(t *testing.T, network, address string) string {
	t.Helper()
	listener, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				lines := bufio.NewScanner(connection)
				for lines.Scan() {
					if _, err := connection.Write(append(lines.Bytes(), '\n')); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// phone is a client of an echo.
type phone struct {
	net.Conn
	answers *bufio.Reader
}

func call(g Gomega, address string) phone {
	connection, err := net.Dial("tcp4", address)
	g.Expect(err).NotTo(HaveOccurred())
	return phone{connection, bufio.NewReader(connection)}
}

// ask says word and waits for the answer.
func (p phone) ask(word string, wait time.Duration) (string, error) {
	if _, err := p.Write([]byte(word + "\n")); err != nil {
		return "", err
	}
	return p.hear(wait)
}

func (p phone) hear(wait time.Duration) (string, error) {
	if err := p.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return "", err
	}
	return p.answers.ReadString('\n')
}

func lay(t *testing.T) *wire.Wire {
	t.Helper()
	made, err := wire.New(echo(t, "tcp4", "127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := made.Close(); err != nil {
			t.Error(err)
		}
	})
	return made
}

func TestSound(t *testing.T) {
	g := NewWithT(t)
	line := call(g, lay(t).Address())
	defer line.Close()
	g.Expect(line.ask("hello", patience)).To(Equal("hello\n"))
}

func TestASocketThatComesLater(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "echo.sock")
	cable, err := wire.NewToSocket(path)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(cable.Close()).To(Succeed()) }()
	if early, err := net.Dial("tcp4", cable.Address()); err == nil {
		defer early.Close()
		_, err = phone{early, bufio.NewReader(early)}.hear(patience)
		g.Expect(err).To(HaveOccurred(), "no process listens there yet")
	}

	echo(t, "unix", path)
	line := call(g, cable.Address())
	defer line.Close()
	g.Expect(line.ask("hello", patience)).To(Equal("hello\n"))
	cable.Silence(wire.Up, wire.Down)
	_, err = line.ask("and now?", moment)
	g.Expect(errors.Is(err, os.ErrDeadlineExceeded)).To(BeTrue(), "%v", err)
	g.Expect(cable.Mend()).To(Succeed())
	g.Expect(line.hear(patience)).To(Equal("and now?\n"))
	cable.Refuse()
	_, err = line.hear(patience)
	g.Expect(errors.Is(err, os.ErrDeadlineExceeded)).To(BeFalse(), "%v", err)
	g.Expect(err).To(HaveOccurred())
}

func TestRefuse(t *testing.T) {
	g := NewWithT(t)
	cable := lay(t)
	line := call(g, cable.Address())
	defer line.Close()
	g.Expect(line.ask("hello", patience)).To(Equal("hello\n"))

	cable.Refuse()
	_, err := line.ask("still there?", patience)
	g.Expect(errors.Is(err, os.ErrDeadlineExceeded)).To(BeFalse(), "the connection is broken, not silent")
	g.Expect(err).To(HaveOccurred())
	_, err = net.Dial("tcp4", cable.Address())
	g.Expect(errors.Is(err, syscall.ECONNREFUSED)).To(BeTrue(), "%v", err)

	g.Expect(cable.Mend()).To(Succeed())
	again := call(g, cable.Address())
	defer again.Close()
	g.Expect(again.ask("back", patience)).To(Equal("back\n"))
}

func TestSilence(t *testing.T) {
	for name, directions := range map[string][]wire.Direction{
		"both": {wire.Up, wire.Down}, "up": {wire.Up}, "down": {wire.Down},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			cable := lay(t)
			line := call(g, cable.Address())
			defer line.Close()
			g.Expect(line.ask("hello", patience)).To(Equal("hello\n"))

			cable.Silence(directions...)
			_, err := line.ask("one", moment)
			g.Expect(errors.Is(err, os.ErrDeadlineExceeded)).To(BeTrue(), "%v", err)
			late := call(g, cable.Address())
			defer late.Close()
			_, err = late.ask("two", moment)
			g.Expect(errors.Is(err, os.ErrDeadlineExceeded)).To(BeTrue(), "%v", err)

			g.Expect(cable.Mend()).To(Succeed())
			g.Expect(line.hear(patience)).To(Equal("one\n"), "nothing is lost")
			g.Expect(late.hear(patience)).To(Equal("two\n"))
		})
	}
}

func TestSlow(t *testing.T) {
	g := NewWithT(t)
	cable := lay(t)
	line := call(g, cable.Address())
	defer line.Close()
	cable.Slow(moment)
	begin := time.Now()
	g.Expect(line.ask("hello", patience)).To(Equal("hello\n"))
	g.Expect(time.Since(begin)).To(BeNumerically(">=", 2*moment), "both ways are slow")
}

func TestCloseEndsSilentConnections(t *testing.T) {
	g := NewWithT(t)
	made, err := wire.New(echo(t, "tcp4", "127.0.0.1:0"))
	g.Expect(err).NotTo(HaveOccurred())
	line := call(g, made.Address())
	defer line.Close()
	made.Silence(wire.Up, wire.Down)
	_, err = line.ask("one", moment)
	g.Expect(err).To(HaveOccurred())
	done := make(chan error)
	go func() { done <- made.Close() }()
	g.Eventually(done, patience).Should(Receive(BeNil()))
}
