package fleettest

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"regexp"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
)

var healthAddress = regexp.MustCompile(`msg=Listening server=health address=(\S+)`)

// Frozenz is what an agent says of itself when the hub cannot be asked.
type Frozenz struct {
	Frozen bool
	Reason string
}

// AskAgent reads /frozenz of the agent of member, at the address that the agent's log tells.
func AskAgent(ctx context.Context, g Gomega, member *localfleet.Member) Frozenz {
	log, err := os.ReadFile(member.Agent.LogFile())
	g.Expect(err).NotTo(HaveOccurred())
	addresses := healthAddress.FindAllSubmatch(log, -1)
	g.Expect(addresses).NotTo(BeEmpty(), "the agent's log tells its address")
	address := string(addresses[len(addresses)-1][1])
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/frozenz?format=json", http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	response, err := http.DefaultClient.Do(request)
	g.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	var state Frozenz
	g.Expect(json.NewDecoder(response.Body).Decode(&state)).To(Succeed())
	return state
}
