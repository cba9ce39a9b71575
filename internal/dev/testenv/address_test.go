package testenv_test

import (
	"net"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

func TestNobodyTakesAFreeAddress(t *testing.T) {
	g := NewWithT(t)
	address, err := testenv.FreeAddress()
	g.Expect(err).NotTo(HaveOccurred())
	_, port, err := net.SplitHostPort(address)
	g.Expect(err).NotTo(HaveOccurred())

	other, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", port))
	if err == nil { // Else another process has it there already.
		defer other.Close()
	}
	own, err := net.Listen("tcp4", address)
	g.Expect(err).NotTo(HaveOccurred(), "whatever process has the port on 127.0.0.1")
	g.Expect(own.Close()).To(Succeed())
}
