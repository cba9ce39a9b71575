package tenancy

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pagePath is the page that the table makes.
const pagePath = "../../../docs/tenancy.md"

var writePage = flag.Bool("update", false, "write docs/tenancy.md from the table of attempts")

const introduction = `<!-- Made from the table in test/integration/tenancy by "go test ./test/integration/tenancy -run TestPage -update". -->
# Who may do what on the hub

**An agent** has an identity of its own, which it got by joining. It reads its Cluster and the Machines, MachineClasses and runs of its
namespace. It writes their status, its part of its Cluster's status, one Lease, events, and the request that renews its certificate. The
hub's API server refuses everything else:

- **RBAC** knows the roles that the hub gives to the group of each cluster.
- **The admission policy** ` + "`hollowfleet-agents`" + ` knows fields and names. No agent writes what it does not list.
- **The hub's approver** denies each certificate that is not exactly the asker's own identity.

**Users** get ClusterRoles: ` + "`hollowfleet-viewer` (part of `view`), `hollowfleet-editor`, `hollowfleet-load-tester`, `hollowfleet-log-reader`" + `, and for fleets
[` + "`hollowfleet-approver` and `hollowfleet-fleet-editor`" + `](upgrades.md#approval). The editor may not write MachineDeployments, which would
pass a fleet's gates.

A test makes each attempt below against a real API server. There are clusters ` + "`a`, `ab`, `b`, and `s`" + `, which uses tokens of a
ServiceAccount. The chapters from "An identity of two clusters" on try identities and roles that the hub never gives. What RBAC refuses
is often only counted; ` + "`test/integration/tenancy`" + ` has each attempt.
`

// attack is what somebody may try, what comes of it, and the tests that show that.
type attack struct{ what, answer, tests string }

var attacksOnNodes = []attack{
	{"create a Machine with the name of a Node", "no instance and no certificate while that Node exists (`NodeNameConflict`)",
		`test/integration/lifecycle "should keep its identity, pods and capacity beside a Machine of its name, which starts when the Node is gone"`},
	{"create a Machine with name and provider ID of a Node, or set that later", "refused by the admission policy; from an administrator, the Machine is invalid and the Node left alone",
		`test/integration/lifecycle "should not be labelled, tainted, drained or deleted for a Machine with its provider ID"`},
	{"renew a hollow-node's certificate after another Node took the place of its own", "left alone by the agent's approver", `agent/internal/csrapprover "should not renew"`},
	{"replace the Node of a Machine and update the Machine, to have pods evicted", "nothing is evicted",
		`agent/internal/machine "should evict nothing for an update from a node that took the place of its own"`},
}

var attacksOnAgents = []attack{
	{"copy an agent's credential directory and start another agent with it", "it stands by until the Lease has expired",
		"agent/internal/clientcert TestACopiedDirectoryKnowsNoPredecessor; agent/internal/clusterstatus TestAProcessGoesOnWithTheLeaseOfItsPredecessor"},
	{"copy a running machine with its memory", "the copy whose renewal comes second ends", "agent/internal/clusterstatus TestACopyOfARunningAgentStops"},
	{"suspend an agent's machine until its Lease has expired", "it does nothing before it holds the Lease again",
		"agent/internal/clusterstatus TestASuspendedAgentHoldsNoLease, TestAtMostOneAgentActs"},
	{"use a join token after its agent has joined", "the hub has deleted it; before that, a warning event", "hub/internal/csrapprover TestATokenIsDeletedWhenItsAgentIsConnected"},
	{"exchange a running agent's kubeconfig for an administrator's", "it keeps its own",
		"agent/internal/clientcert TestAnotherIdentityIsNotFollowed; agent TestAnotherIdentityIsNotTakenWhileTheAgentRuns"},
	{"a bootstrap kubeconfig with an http or unverified server", "no token is sent", "agent/internal/clientcert TestABootstrapKubeconfigNamesAServerThatShowsWhoItIs"},
	{"lead the workload cluster's address to another cluster", "the agent freezes", "agent/internal/clients TestProbesFailForAnotherCluster"},
	{"answer a deletion with \"come again\" while the agent freezes", "it is not sent again", "agent/internal/freeze TestARepetitionIsRefusedWhenTheAgentHasFrozenMeanwhile"},
	{"stop an agent while deletions wait, and resume it", "it is frozen, and decides again afterwards",
		`agent/internal/freeze TestWhatWasDecidedBeforeAThawIsNotDoneAfterIt; test/integration/faults "should stand it: [stop the agent]"`},
	{"set the agent's clock ahead to end drains", "each drain has its full time", `agent/internal/machine "should give a drain its whole time when the agent's clock is ahead of the hub's"`},
	{"set its clock back, so that the hub seems restored", "the hub counts as the same", "agent/internal/hubidentity TestAClockThatIsSetBackIsNoRestore"},
	{"let a Machine be missing on the hub, or be deleted in a stale cache only", "nothing is removed",
		`agent/internal/machine "should remove nothing for a machine that is missing on the hub", "should remove nothing when it is being deleted in the cache and missing on the hub"`},
	{"restore the hub from a backup, or replace it", "the agent freezes until a user acknowledges it",
		`test/integration/restored "should be acknowledged before anything comes or goes for what it says"`},
	{"ask for a kubelet's certificate with another Machine's token", "not approved", "agent TestAnotherMachinesTokenGetsNoIdentity"},
	{"create a Machine for another cluster in this namespace", "invalid, no instance", `agent/internal/machine "should refuse another cluster's machine"`},
	{"give a MachineClass fields of a pod, such as a hostPath or an image", "invalid: the configuration has fixed fields", `agent/driver/hollow "an unknown field"`},
	{"name a Machine like another cluster's pod or Secret in one host namespace", "left alone", "agent/driver/hollow TestAnotherClustersPodIsNotTouched"},
	{"write a quantity that takes hours to compute", "refused before it is parsed",
		`apis/v1alpha1 TestCostlyQuantitiesAreNotParsed; agent/driver/hollow "a costly quantity"; test/api/admission "a costly capacity"`},
	{"write a status of more than a megabyte", "refused: every field has a limit", "test/api TestStatusesAreBounded"},
	{"put terminal escape codes into a message", "printed escaped", "hub/cli TestControlCharactersOfAnAgentDoNotReachTheTerminal"},
	{"read an agent's key as another user of its machine", "readable by the agent's user alone", "agent/internal/clientcert TestJoin"},
	{"read profiles from the port for health or metrics", "served on an address of their own, where asked", "hub TestHubServesProfilesWhereAsked"},
}

var attacksByWork = []attack{
	{"a load test's template that binds pods to a Node, mounts its files, or takes its network, processes, a token, an address or a port", "refused with the field before the first request",
		"agent/internal/loadtest TestWhatReachesBeyondTheRunIsRefusedBeforeTheFirstRequest"},
	{"pods of a load test that keep other namespaces' pods pending, or Secrets copied between namespaces", "refused with the field",
		"agent/internal/loadtest/confine TestPodsThatReachFurther, TestOtherKindsThatReachFurther"},
	{"a privileged pod in a namespace of a load test", "refused by Pod Security `baseline`", "agent/internal/loadtest TestTheNamespacesOfARunEnforcePodSecurity"},
	{"a namespace prepared with the name of a run's, to have it removed", "the run fails, the namespace stays", "agent/internal/loadtest TestOnlyWhatTheRunMadeIsRemoved"},
	{"a template that becomes gigabytes, or ends its agent", "refused before rendering; a run that ended its agent twice has failed",
		"agent/internal/loadtest/template TestShortTemplatesDoNotBecomeLargeObjects; agent/internal/loadtest TestARunThatEndsItsAgentIsNotBegunForEver"},
	{"a process of a local fleet's machine by a pod in the hollow nodes' namespace, with `edit` there", "refused by policy `hollowfleet-podhost`",
		"agent/simulator/internal/controlplane TestOnlyTheAgentCreatesPodsForThePodhost"},
	{"the same by a pod of another namespace or shape", "not started", "agent/simulator/internal/podhost TestNothingRunsButHollowNodes"},
	{"a fleet's MachineDeployment, applied in another cluster", "not the fleet's", "hub/internal/fleet TestACopyOfAMachineDeploymentIsNotTheFleets"},
	{"a mirror of a Cluster, applied under another name", "the user's: neither written nor deleted", "hub/internal/inventory/managedcluster TestACopyOfAMirrorIsTheUsers"},
	{"thousands of MachineDeployments, MachineSets or Machines in one namespace", "wait in a queue of their own: each other namespace has its turn before a second one of theirs",
		"hub/internal/fairqueue TestOneNamespaceLeavesAWorkerToTheOthers; hub TestANamespaceFullOfObjectsHoldsUpNoOther; hub/internal/machinedeployment TestAStepReadsOnlyWhatIsItsOwn"},
	{"a fleet's template that sets what the hub writes", "refused with the field", "hub/internal/fleet TestATemplateSetsNothingThatTheHubWrites"},
}

// nameOfCluster is a cluster in an attempt's words. Chapters that differ in these only are told once.
var nameOfCluster = regexp.MustCompile("`(a|ab|b)`")

// makePage renders the tables.
func makePage() []byte {
	var text bytes.Buffer
	text.WriteString(introduction)
	counts := map[answer]int{}
	alike := map[string]string{}
	for _, chapter := range chapters() {
		fmt.Fprintf(&text, "\n## %s\n\n%s\n", chapter.title, chapter.about)
		var answers []answer
		tried := map[answer][]string{}
		var key strings.Builder
		for _, attempt := range chapter.attempts {
			if !slices.Contains(answers, attempt.want) {
				answers = append(answers, attempt.want)
			}
			tried[attempt.want] = append(tried[attempt.want], attempt.what)
			counts[attempt.want]++
			fmt.Fprintln(&key, nameOfCluster.ReplaceAllString(attempt.what, "X"), attempt.want)
		}
		if first, told := alike[key.String()]; told {
			fmt.Fprintf(&text, "The attempts and answers of %q.\n", first)
			continue
		}
		alike[key.String()] = chapter.title
		text.WriteString("\n")
		for _, given := range answers {
			fmt.Fprintf(&text, "- %s: %s\n", given, brief(given, tried[given]))
		}
	}
	writeAttacks(&text, "Nodes of a workload cluster", "What a hub user can do to a Node that Hollowfleet did not make ([why](design/nodes.md)).", attacksOnNodes)
	writeAttacks(&text, "Agents", "What others can do to an agent, or with what is an agent's ([why](design/joining.md#which-process-is-the-agent)).", attacksOnAgents)
	writeAttacks(&text, "What load tests, disruptions and fleets reach",
		"[What a load test may make](load-tests.md#what-a-load-test-may-make) is up to the cluster's administrator.", attacksByWork)
	var total int
	for _, count := range counts {
		total += count
	}
	fmt.Fprintf(&text, "\n%d attempts, of which %d are allowed.\n", total, counts[allowed])
	return text.Bytes()
}

// brief is what was tried. RBAC refuses all that no role names, so a long list of that is a number, and so is a very long one.
func brief(given answer, tried []string) string {
	if most := map[bool]int{true: 3, false: 6}[given == rbac]; given == allowed || len(tried) <= most {
		return strings.Join(tried, "; ")
	}
	return fmt.Sprintf("%d attempts", len(tried))
}

func writeAttacks(text *bytes.Buffer, title, about string, attacks []attack) {
	fmt.Fprintf(text, "\n## %s\n\n%s\n\n| attack | answer |\n|---|---|\n", title, about)
	for _, each := range attacks {
		fmt.Fprintf(text, "| %s | %s |\n", each.what, each.answer)
	}
}

// Claim: Who may do what is as the page says. Broken: new rows; the policies and roles as they were.
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

// Each attack names tests that exist.
func TestAttacksNameTheirTests(t *testing.T) {
	for _, each := range slices.Concat(attacksOnNodes, attacksOnAgents, attacksByWork) {
		for group := range strings.SplitSeq(each.tests, "; ") {
			dir, names, found := strings.Cut(group, " ")
			files, err := filepath.Glob("../../../" + dir + "/*_test.go")
			if err != nil || !found || len(files) == 0 {
				t.Fatalf("%s: no tests in %s: %v", each.what, dir, err)
			}
			var all strings.Builder
			for _, file := range files {
				content, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				all.Write(content)
			}
			for _, name := range regexp.MustCompile(`"[^"]*"|Test\w+`).FindAllString(names, -1) {
				literal, _, _ := strings.Cut(name, "[") // What follows is drawn from the faults.
				if !strings.Contains(all.String(), literal) {
					t.Errorf("%s: %s has no test %s", each.what, dir, name)
				}
			}
		}
	}
}
