package hosted

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// observer has seen all that was ever made for a set, and looks at API servers, files and processes itself.
type observer struct {
	*localFleet
	set                          string
	simulated, clusters, machine *fleettest.Journal
}

// observe watches what is made for a set until the spec ends.
func (f *localFleet) observe(ctx context.Context, set string) *observer {
	GinkgoHelper()
	named := func(object client.Object) bool { return strings.HasPrefix(object.GetName(), set+"-") }
	within := func(object client.Object) bool { return strings.HasPrefix(object.GetNamespace(), set+"-") }
	return &observer{
		localFleet: f, set: set,
		simulated: fleettest.WatchKind(ctx, f.config, "SimulatedCluster", &v1alpha1.SimulatedClusterList{}, named),
		clusters:  fleettest.WatchKind(ctx, f.config, "Cluster", &v1alpha1.ClusterList{}, named),
		machine:   fleettest.WatchKind(ctx, f.config, "Machine", &v1alpha1.MachineList{}, within),
	}
}

// expectSettled waits until the set is Ready, and holds what there is against what was asked for.
func (o *observer) expectSettled(ctx context.Context, machines int, names []string, version string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		s, err := o.look(ctx, o.set)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(s.count(isReady)).To(Equal(len(names)))
		g.Expect(s.readyMachines()).To(Equal(machines * len(names)))
	}).Should(Succeed())
	o.expectWhole(ctx, names, machines, version)
	o.expectMade(ctx, names, machines)
}

// expectMade holds that these clusters were ever made, each once, with so many Machines each.
func (o *observer) expectMade(ctx context.Context, names []string, machines int) {
	GinkgoHelper()
	for _, journal := range []*fleettest.Journal{o.simulated, o.clusters, o.machine} {
		journal.CatchUp(ctx)
		Expect(journal.Verdict()).To(BeEmpty())
	}
	Expect(o.simulated.Made()).To(ConsistOf(names), "each SimulatedCluster that ever was")
	Expect(o.clusters.Made()).To(ConsistOf(names), "each Cluster that ever was")
	Expect(o.machine.Made()).To(HaveLen(machines*len(names)), "each Machine that ever was")
}

// expectWhole holds that exactly these clusters are there, none twice, with their Machines, Nodes and processes, and that their API servers
// have that version.
func (o *observer) expectWhole(ctx context.Context, names []string, machines int, version string) {
	GinkgoHelper()
	list := &v1alpha1.SimulatedClusterList{}
	Expect(o.hub.List(ctx, list)).To(Succeed())
	Expect(namesIn(list)).To(ConsistOf(names))
	o.simulated.CatchUp(ctx)
	Expect(o.simulated.Live()).To(ConsistOf(names))
	Expect(o.recordedNames()).To(ConsistOf(names), "what the keeper runs")
	for _, name := range names {
		// What the hub says may be from before its keeper was killed.
		agent := regexp.MustCompile(`--cluster-name ` + name + ` `)
		Eventually(ctx, func() []string { return agent.FindAllString(strings.Join(testenv.ProcessesUnder(o.dir), "\n"), -1) }).Should(HaveLen(1), "agents of %s", name)
		o.expectCluster(ctx, name, machines, version)
	}
}

// expectCluster asks the API server of a simulated cluster, which may be Ready before its Machines are.
func (o *observer) expectCluster(ctx context.Context, name string, machines int, version string) {
	GinkgoHelper()
	c, runs := o.workload(name)
	Expect(runs).To(Equal(version), name)
	Eventually(ctx, func(g Gomega) {
		of := &v1alpha1.MachineList{}
		g.Expect(o.hub.List(ctx, of, client.InNamespace(name))).To(Succeed())
		g.Expect(of.Items).To(HaveLen(machines))
		pods, nodes := &corev1.PodList{}, &corev1.NodeList{}
		g.Expect(c.List(ctx, pods, client.HasLabels{v1alpha1.MachineNameLabel})).To(Succeed())
		g.Expect(c.List(ctx, nodes, client.MatchingLabels{"pool": localfleet.WorkersName})).To(Succeed())
		var hosts []string
		for i := range pods.Items {
			hosts = append(hosts, pods.Items[i].Labels[v1alpha1.MachineNameLabel])
		}
		g.Expect(hosts).To(ConsistOf(namesIn(of)), "each Machine of %s has one pod", name)
		g.Expect(namesIn(nodes)).To(ConsistOf(namesIn(of)), "each Machine of %s has one Node", name)
	}).Should(Succeed())
}

// workload is an administrator's client of a simulated cluster, and the minor that its API server says that it has.
func (o *observer) workload(name string) (client.Client, string) {
	GinkgoHelper()
	ready, err := process.ReadReady(filepath.Join(o.dir, "hosted", name))
	Expect(err).NotTo(HaveOccurred())
	config, err := clientcmd.BuildConfigFromFlags("", ready.AdminKubeconfig)
	Expect(err).NotTo(HaveOccurred())
	c, err := client.New(config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	asking, err := discovery.NewDiscoveryClientForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	said, err := asking.ServerVersion()
	Expect(err).NotTo(HaveOccurred())
	if said.EmulationMinor != "" {
		return c, "v" + said.EmulationMajor + "." + said.EmulationMinor
	}
	return c, "v" + said.Major + "." + said.Minor
}

// machineUIDs are those of all Machines of the set's clusters, and of their pods and Nodes.
func (o *observer) machineUIDs(ctx context.Context, names []string) (all []string) {
	GinkgoHelper()
	note := func(list client.ObjectList) {
		Expect(meta.EachListItem(list, func(item runtime.Object) error {
			object := item.(client.Object)
			all = append(all, object.GetName()+" "+string(object.GetUID()))
			return nil
		})).To(Succeed())
	}
	for _, name := range names {
		machines, pods, nodes := &v1alpha1.MachineList{}, &corev1.PodList{}, &corev1.NodeList{}
		c, _ := o.workload(name)
		Expect(o.hub.List(ctx, machines, client.InNamespace(name))).To(Succeed())
		Expect(c.List(ctx, pods, client.HasLabels{v1alpha1.MachineNameLabel})).To(Succeed())
		Expect(c.List(ctx, nodes, client.MatchingLabels{"pool": localfleet.WorkersName})).To(Succeed())
		note(machines)
		note(pods)
		note(nodes)
	}
	return all
}

// recorded are the clusters that the keeper has taken, and recordedNames their names.
func (f *localFleet) recorded() []localfleet.HostedCluster {
	GinkgoHelper()
	state, err := localfleet.ReadState(f.dir)
	Expect(err).NotTo(HaveOccurred())
	return state.Hosted
}

func (f *localFleet) recordedNames() (names []string) {
	GinkgoHelper()
	for _, record := range f.recorded() {
		names = append(names, record.Name)
	}
	return names
}

// naming matches what names one of these and not another, such as s-1 and not s-10.
func naming(names []string) *regexp.Regexp {
	return regexp.MustCompile(`(^|[^a-z0-9])(` + strings.Join(names, "|") + `)($|[^a-z0-9])`)
}

// expectNothing holds that of these clusters nothing is left: no object on the hub but events, no file and no process.
func (o *observer) expectNothing(ctx context.Context, names []string) {
	GinkgoHelper()
	pattern := naming(names)
	Eventually(ctx, func(g Gomega) { g.Expect(o.objectsNamed(ctx, g, pattern)).To(BeEmpty()) }).Should(Succeed())
	Expect(o.recordedNames()).NotTo(ContainElement(MatchRegexp(pattern.String())))
	Expect(testenv.ProcessesUnder(o.dir)).NotTo(ContainElement(MatchRegexp(pattern.String())), "processes left behind")
	var files []string
	Expect(filepath.WalkDir(o.dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && pattern.MatchString(filepath.Base(path)) {
			files = append(files, path)
		}
		return nil
	})).To(Succeed())
	Expect(files).To(BeEmpty(), "files left behind")
	for _, journal := range []*fleettest.Journal{o.simulated, o.clusters, o.machine} {
		journal.CatchUp(ctx)
		Expect(journal.Live()).NotTo(ContainElement(MatchRegexp(pattern.String())))
	}
}

// objectsNamed are the objects of all kinds of the hub whose name or namespace matches.
func (o *observer) objectsNamed(ctx context.Context, g Gomega, pattern *regexp.Regexp) (found []string) {
	asking, err := discovery.NewDiscoveryClientForConfig(o.config)
	g.Expect(err).NotTo(HaveOccurred())
	all, err := asking.ServerPreferredResources()
	g.Expect(err).NotTo(HaveOccurred())
	for _, group := range all {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		g.Expect(err).NotTo(HaveOccurred())
		for _, resource := range group.APIResources {
			if !slices.Contains(resource.Verbs, "list") || resource.Kind == "Event" {
				continue
			}
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(version.WithKind(resource.Kind + "List"))
			g.Expect(o.hub.List(ctx, list)).To(Succeed(), resource.Kind)
			for _, object := range list.Items {
				if pattern.MatchString(object.Name) || pattern.MatchString(object.Namespace) {
					found = append(found, fmt.Sprintf("%s %s/%s", resource.Kind, object.Namespace, object.Name))
				}
			}
		}
	}
	return found
}

func namesIn(list client.ObjectList) (names []string) {
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		names = append(names, item.(client.Object).GetName())
		return nil
	})
	return names
}
