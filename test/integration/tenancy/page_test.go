package tenancy

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
)

// pagePath is the page that the table makes.
const pagePath = "../../../docs/tenancy.md"

var writePage = flag.Bool("update", false, "write docs/tenancy.md from the table of attempts")

const introduction = `<!-- Made from the table in test/integration/tenancy by "go test ./test/integration/tenancy -run TestPage -update". -->
# What a workload cluster's identity can do on the hub

The agent of a cluster uses the hub with an identity of its own, which it got by joining. That identity reads its own
Cluster object and the Machines and MachineClasses of its own namespace. It writes the status of those Machines, its
part of the status of its Cluster, one Lease, events, and the one request that renews its certificate.

All else is refused by the hub's API server, whatever the agent's code does:

- **RBAC** knows the roles that the hub gives to the one group of each cluster.
- **The admission policy** (ValidatingAdmissionPolicy ` + "`hollowfleet-agents`" + `) knows fields and names, and begins with
  nothing: what it does not list, no agent writes, even with a role for it.
- **The hub's approver** reads what a certificate is asked for. It denies what is not exactly the asker's own identity.

Each row below is tried by a test against a real API server, with a certificate that was got by joining. There are
clusters ` + "`a`, `ab` and `b`, and `s`" + `, which uses tokens of a ServiceAccount. The last three chapters try identities and
roles that the hub never gives.
`

// makePage renders the table.
func makePage() []byte {
	var text bytes.Buffer
	text.WriteString(introduction)
	counts := map[answer]int{}
	for _, chapter := range chapters() {
		fmt.Fprintf(&text, "\n## %s\n\n%s\n\n| attempt | answer |\n|---|---|\n", chapter.title, chapter.about)
		for _, tried := range chapter.attempts {
			fmt.Fprintf(&text, "| %s | %s |\n", tried.what, tried.want)
			counts[tried.want]++
		}
	}
	text.WriteString("\n## In numbers\n\n| answer | attempts |\n|---|---|\n")
	for _, given := range []answer{allowed, rbac, policy, approver, kind, server} {
		fmt.Fprintf(&text, "| %s | %d |\n", given, counts[given])
	}
	return text.Bytes()
}

func TestPage(t *testing.T) {
	if *writePage {
		if err := os.WriteFile(pagePath, makePage(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(pagePath)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(written, makePage()) {
		t.Error("docs/tenancy.md is not what the table says: run go test ./test/integration/tenancy -run TestPage -update")
	}
}

// Two rows of one name would be two specs of one name, and a riddle on the page.
func TestAttemptsAreTold(t *testing.T) {
	told := map[string]bool{}
	for _, chapter := range chapters() {
		for _, tried := range chapter.attempts {
			key := chapter.title + ": " + tried.what
			if told[key] || tried.what == "" || chapter.about == "" || (tried.want == allowed) != (tried.names == "") {
				t.Errorf("%s: tell each attempt once, and what its refusal names", key)
			}
			told[key] = true
		}
	}
}
