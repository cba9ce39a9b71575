package tenancy

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
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

All else is refused by the hub's API server, whatever the agent's code does, and so is what the role of a user does not say. The
page has the users of load tests, disruptions and fleets, too:

- **RBAC** knows the roles that the hub gives to the one group of each cluster.
- **The admission policy** (ValidatingAdmissionPolicy ` + "`hollowfleet-agents`" + `) knows fields and names, and begins with
  nothing: what it does not list, no agent writes, even with a role for it.
- **The hub's approver** reads what a certificate is asked for. It denies what is not exactly the asker's own identity.

Each row below is tried by a test against a real API server, with a certificate that was got by joining. There are
clusters ` + "`a`, `ab` and `b`, and `s`" + `, which uses tokens of a ServiceAccount. The chapters from "An identity of two
clusters" on try identities and roles that the hub never gives.
`

// attacksOnNodes is the part of the page whose attempts need a workload cluster.
const attacksOnNodes = `
## Nodes of a workload cluster

What a hub user can do to a Node that Hollowfleet did not make. [The design](design/nodes.md) says what
proves that a Node is a Machine's.

| attack | answer | test |
|---|---|---|
| create a Machine with the name of a Node, to take over its identity | no instance is made and no certificate approved while that Node exists; the Machine says so (` + "`NodeNameConflict`" + `) | ` +
	"`test/integration/lifecycle`" + ` "should keep its identity, pods and capacity beside a Machine of its name, which begins when the Node is gone" |
| create a Machine with name and provider ID of a Node, to label, taint and drain it and to delete it with the Machine | refused by the admission policy; if an administrator does it, the Machine is invalid and the Node is left alone | ` +
	"`test/integration/lifecycle`" + ` "should not be labelled, tainted, drained or deleted for a Machine with its provider ID" |
| set the provider ID of a Node on a Machine of its name | refused by the admission policy | ` +
	"`test/integration/lifecycle`" + ` "should not be labelled, tainted, drained or deleted for a Machine with its provider ID" |
| let a hollow-node of a running Machine renew its certificate after a Node of another took the place of its own | left alone by the agent's approver | ` +
	"`agent/internal/csrapprover`" + ` "should not renew" |
| replace the Node of a Machine by another of its name, and update the Machine to have the pods evicted | nothing is evicted | ` +
	"`agent/internal/machine`" + ` "should evict nothing for an update from a node that took the place of its own" |
`

// attacksOnAgents are tried by the tests of the packages that are named.
const attacksOnAgents = `
## Agents

What others can do to an agent, or with what is an agent's. [How a process is told from its copies](design/joining.md#which-process-is-the-agent)
and [when a join token ends](design/joining.md#how-a-cluster-joins) are on pages of their own.

| attack | answer | test |
|---|---|---|
| copy the credential directory of an agent, and start another agent with it | it stands by until the Lease has expired | ` + "`" + `agent/internal/clientcert` + "`" + ` TestACopiedDirectoryKnowsNoPredecessor; ` + "`" + `agent/internal/clusterstatus` + "`" + ` TestAProcessGoesOnWithTheLeaseOfItsPredecessor |
| copy a running machine with its memory | the one whose renewal comes second stops and ends | ` + "`" + `agent/internal/clusterstatus` + "`" + ` TestACopyOfARunningAgentStops |
| suspend the machine of an agent until its Lease has expired | it does nothing before it holds the Lease again | ` + "`" + `agent/internal/clusterstatus` + "`" + ` TestASuspendedAgentHoldsNoLease, TestAtMostOneAgentActs |
| use a join token after its agent has joined | the hub has deleted it; before that, the certificate makes a warning event | ` + "`" + `hub/internal/csrapprover` + "`" + ` TestATokenIsDeletedWhenItsAgentIsConnected |
| exchange the kubeconfig of a running agent for an administrator's | the agent goes on with its own | ` + "`" + `agent/internal/clientcert` + "`" + ` TestAnotherIdentityIsNotFollowed; ` + "`" + `agent` + "`" + ` TestAnotherIdentityIsNotTakenWhileTheAgentRuns |
| give an agent a bootstrap kubeconfig with a server over http, or one that is not verified | it sends no token there | ` + "`" + `agent/internal/clientcert` + "`" + ` TestABootstrapKubeconfigNamesAServerThatShowsWhoItIs |
| lead the address of the workload cluster to another cluster | the agent freezes | ` + "`" + `agent/internal/clients` + "`" + ` TestProbesFailForAnotherCluster |
| answer a deletion with "come again", and let the agent freeze meanwhile | it is not sent again | ` + "`" + `agent/internal/freeze` + "`" + ` TestARepetitionIsRefusedWhenTheAgentHasFrozenMeanwhile |
| stop an agent while deletions wait, and let it go on | it is frozen, and decides anew after the thaw | ` + "`" + `agent/internal/freeze` + "`" + ` TestWhatWasDecidedBeforeAThawIsNotDoneAfterIt; ` + "`" + `test/integration/faults` + "`" + ` "should stand it: [stop the agent]" |
| set the agent's clock ahead to have drains given up | each drain has its whole time | ` + "`" + `agent/internal/machine` + "`" + ` "should give a drain its whole time when the agent's clock is ahead of the hub's" |
| let a Machine be missing on the hub, or be deleted in a stale cache only | nothing is removed | ` + "`" + `agent/internal/machine` + "`" + ` "should remove nothing for a machine that is missing on the hub", "should remove nothing when it is being deleted in the cache and missing on the hub" |
| restore the hub from a backup, or put another hub in its place | the agent freezes until a person acknowledges it | ` + "`" + `test/integration/restored` + "`" + ` "should be acknowledged before anything comes or goes for what it says" |
| ask for the certificate of a kubelet with the token of another Machine | no certificate is approved | ` + "`" + `agent` + "`" + ` TestAnotherMachinesTokenGetsNoIdentity |
| create a Machine for another cluster in the namespace of this one | it is invalid, and gets no instance | ` + "`" + `agent/internal/machine` + "`" + ` "should refuse another cluster's machine" |
| give a MachineClass fields of a pod, such as a hostPath volume or an image | it is invalid: the configuration has a fixed set of fields | ` + "`" + `agent/driver/hollow` + "`" + ` "an unknown field" |
| name a Machine like a pod or Secret of another cluster in one host namespace | it is left alone | ` + "`" + `agent/driver/hollow` + "`" + ` TestAnotherClustersPodIsNotTouched |
| write a quantity that takes hours to compute, in a status, a class, a provider configuration or an annotation | refused before it is parsed | ` + "`" + `apis/v1alpha1` + "`" + ` TestCostlyQuantitiesAreNotParsed; ` + "`" + `agent/driver/hollow` + "`" + ` "a costly quantity"; ` + "`" + `test/api/admission` + "`" + ` "a costly capacity" |
| write a status of more than a megabyte, with the certificate of an agent | refused by the schema: every field of a status has a limit | ` + "`" + `test/api` + "`" + ` TestStatusesAreBounded |
| put escape codes for a terminal into a message of an agent | kubectl hollow prints them escaped | ` + "`" + `hub/internal/cli` + "`" + ` TestControlCharactersOfAnAgentDoNotReachTheTerminal |
| set the agent's clock back to have the hub taken for a restored one | the hub counts as the same | ` + "`" + `agent/internal/hubidentity` + "`" + ` TestAClockThatIsSetBackIsNoRestore |
| read the private key of an agent as another user of its machine | directory and files are readable to the agent's user alone | ` + "`" + `agent/internal/clientcert` + "`" + ` TestJoin |
| read profiles from the port for health or metrics | they are served on an address of their own, and only where asked | ` + "`" + `hub` + "`" + ` TestHubServesProfilesWhereAsked |
`

// attacksByWork need a workload cluster too.
var attacksByWork = `
## What load tests, disruptions and fleets reach

What their objects can do in a workload cluster, and what a user of that cluster can do to them. [What a load test may
make](load-tests.md#what-a-load-test-may-make) is up to the cluster's administrator.

| attack | answer | test |
|---|---|---|
` + tested(
	"let a template of a load test bind pods to a Node, mount its files, or take its network, its processes, a token, an address or a port", "refused with the field before the first request",
	"agent/internal/loadtest", "TestWhatReachesBeyondTheRunIsRefusedBeforeTheFirstRequest",
	"let the pods of a load test keep pods of other namespaces pending, or have Secrets copied between namespaces", "refused with the field",
	"agent/internal/loadtest/confine", "TestPodsThatReachFurther, TestOtherKindsThatReachFurther",
	"create a privileged pod in a namespace of a load test, as a user of the workload cluster", "refused by Pod Security: the namespace enforces `baseline`",
	"agent/internal/loadtest", "TestTheNamespacesOfARunEnforcePodSecurity",
	"have a namespace ready that has the name of one of a run's, to have it removed with the run", "the run fails, and the namespace stays",
	"agent/internal/loadtest", "TestOnlyWhatTheRunMadeIsRemoved",
	"let a template become gigabytes, or end the agent that renders it", "refused before rendering; a run that ended its agent twice has failed",
	"agent/internal/loadtest", "TestShortTemplatesDoNotBecomeLargeObjects, TestARunThatEndsItsAgentIsNotBegunForEver",
	"start a process of a local fleet's machine by a pod in the namespace of the hollow nodes, with `edit` there", "refused by policy `hollowfleet-podhost`: only the agent writes pods and Secrets there",
	"agent/simulator/internal/controlplane", "TestOnlyTheAgentCreatesPodsForThePodhost",
	"the same by a pod of another namespace or of another shape", "the podhost does not start it",
	"agent/simulator/internal/podhost", "TestNothingRunsButHollowNodes",
	"export a MachineDeployment of a fleet and apply it in another cluster, to have the fleet own it there", "it is not the fleet's",
	"hub/internal/fleet", "TestACopyOfAMachineDeploymentIsNotTheFleets",
	"export the hub's picture of a Cluster in Open Cluster Management or as a ClusterProfile, and apply it under another name", "it is the user's: neither written nor deleted",
	"hub/internal/inventory/managedcluster", "TestACopyOfAMirrorIsTheUsers",
	"have a fleet's template set what the hub writes itself", "refused with the field",
	"hub/internal/fleet", "TestATemplateSetsNothingThatTheHubWrites",
)

// tested makes rows of attack, answer, package and tests.
func tested(cells ...string) string {
	var rows strings.Builder
	for row := range slices.Chunk(cells, 4) {
		fmt.Fprintf(&rows, "| %s | %s | `%s` %s |\n", row[0], row[1], row[2], row[3])
	}
	return rows.String()
}

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
	text.WriteString(attacksOnNodes)
	text.WriteString(attacksOnAgents)
	text.WriteString(attacksByWork)
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
