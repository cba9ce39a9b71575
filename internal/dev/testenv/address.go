package testenv

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// FreeAddress returns an address of this machine, with a port on which no process listens. It stays free until its user
// listens there: a port that is free on 127.0.0.1 goes to whatever process connects somewhere next, but nothing else is
// likely to be on an address that was drawn from all of 127.0.0.0/8.
func FreeAddress() (string, error) {
	host := net.IPv4(127, byte(rand.IntN(256)), byte(rand.IntN(256)), byte(2+rand.IntN(253)))
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: host})
	if err != nil {
		return "", fmt.Errorf("looking for a free port on %s: %w", host, err)
	}
	return listener.Addr().String(), listener.Close()
}
