package localfleet

import (
	"net"
	"testing"

	. "github.com/onsi/gomega"
)

func TestEndpointsAreThoseOfTheCommandLine(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want Endpoints
	}{
		"nothing":            {nil, Endpoints{}},
		"both":               {[]string{"--health-address", "127.0.0.1:1", "--metrics-address=127.0.0.1:2"}, Endpoints{"http://127.0.0.1:1", "http://127.0.0.1:2/metrics"}},
		"the last one holds": {[]string{"--metrics-address", "127.0.0.1:1", "--metrics-address=127.0.0.1:2"}, Endpoints{Metrics: "http://127.0.0.1:2/metrics"}},
		"none":               {[]string{"--metrics-address", "127.0.0.1:1", "--metrics-address", "0"}, Endpoints{}},
		"any port":           {[]string{"--health-address=127.0.0.1:0"}, Endpoints{}},
		"TLS":                {[]string{"--health-address", "127.0.0.1:1", "--tls-self-signed"}, Endpoints{Health: "https://127.0.0.1:1"}},
		"no TLS after all":   {[]string{"--health-address", "127.0.0.1:1", "--tls-self-signed=false"}, Endpoints{Health: "http://127.0.0.1:1"}},
		"a flag as the last": {[]string{"--health-address"}, Endpoints{}},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(endpointsOf(test.args)).To(Equal(test.want)) })
	}
}

func TestAProgramThatIsStartedAgainServesWhereItDid(t *testing.T) {
	g := NewWithT(t)
	f := &Fleet{}
	first, err := f.withEndpoints("hub", []string{"--x"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(first).To(HaveLen(5))
	again, err := f.withEndpoints("hub", []string{"--x"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again).To(Equal(first))
	other, err := f.withEndpoints("agent c1", nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(other).NotTo(ContainElements(first[1], first[3]))

	taken, err := net.Listen("tcp4", first[1])
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = taken.Close() }()
	moved, err := f.withEndpoints("hub", []string{"--x"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(moved[1]).NotTo(Equal(first[1]), "another process has the port")
	g.Expect(moved[3]).To(Equal(first[3]))
	g.Expect(f.state.Endpoints["hub"]).To(Equal(Endpoints{Health: "http://" + moved[1], Metrics: "http://" + moved[3] + "/metrics"}))
}
