package lifecycle

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

var _ = Describe("The log of a Machine", func() {
	// Claim: The log of a node comes through the hub, from a frozen cluster too, and not from an agent that is stopped. Broken: a stopped agent is waited for without end; the log is that of another Machine.
	It("should come through the hub, or the command that reads it", func(ctx SpecContext) {
		member := fleet.Members[1]
		fleet.NewDeployment(ctx, member, "logged", 2)
		machine := fleet.ExpectReady(ctx, member, "logged", 2)[1]
		config, err := clientcmd.BuildConfigFromFlags("", member.Cluster.AdminKubeconfig())
		Expect(err).NotTo(HaveOccurred())
		direct, err := kubernetes.NewForConfig(config)
		Expect(err).NotTo(HaveOccurred())
		pod := fleettest.PodOf(ctx, NewWithT(GinkgoT()), member, machine.Name)
		read, err := direct.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{TailLines: ptr.To[int64](5)}).DoRaw(ctx)
		Expect(err).NotTo(HaveOccurred())
		first, _, _ := strings.Cut(string(read), "\n")
		logs := func(more ...string) (int, string) {
			return hollow(ctx, append([]string{"machine", "logs", machine.Name, "-n", member.Name}, more...)...)
		}
		expectLog := func() {
			GinkgoHelper()
			code, output := logs("--tail", "1000")
			Expect(code).To(BeZero(), output)
			Expect(first).NotTo(BeEmpty())
			Expect(output).To(ContainSubstring(first))
		}
		expectLog()
		code, output := hollow(ctx, "machine", "get", machine.Name, "-n", member.Name)
		Expect(code).To(BeZero(), output)
		Expect(output).To(And(ContainSubstring("Machine "+member.Name+"/"+machine.Name+": Healthy"), ContainSubstring("Log of pod "+pod.Namespace+"/"+machine.Name)))
		code, output = logs("--previous")
		Expect(code).To(Equal(1), output)
		Expect(output).To(And(ContainSubstring("has no earlier run"), ContainSubstring("kubectl --kubeconfig")))

		freeze := client.RawPatch(client.Merge.Type(), []byte(`{"metadata":{"annotations":{"`+v1alpha1.FreezeAnnotation+`":"test"}}}`))
		thaw := client.RawPatch(client.Merge.Type(), []byte(`{"metadata":{"annotations":{"`+v1alpha1.FreezeAnnotation+`":null}}}`))
		cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: member.Name}}
		Expect(fleet.HubClient.Patch(ctx, cluster, freeze)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(fleet.HubClient.Patch(ctx, cluster, thaw)).To(Succeed()) })
		Eventually(ctx, func(ctx context.Context) string {
			_, output := hollow(ctx, "machine", "delete", machine.Name, "-n", member.Name, "--dry-run")
			return output
		}).Should(ContainSubstring("before it is unfrozen"))
		expectLog()

		mend, err := fleet.Break(ctx, fleettest.Fault{Way: fleettest.Stop, Part: fleettest.Agent}, member)
		Expect(err).NotTo(HaveOccurred())
		started := time.Now()
		code, output = logs("--timeout", "3s")
		took := time.Since(started)
		Expect(mend(ctx)).To(Succeed())
		Expect(code).To(Equal(5), output)
		Expect(output).To(And(ContainSubstring("has not answered within 3s"), ContainSubstring("logs "+machine.Name+" -n hollowfleet -c hollow-node --tail 100")))
		Expect(took).To(BeNumerically("<", 30*time.Second))
		Eventually(ctx, func() int {
			code, _ := logs()
			return code
		}).Should(BeZero(), "it answers again")
		requests := &v1alpha1.MachineLogRequestList{}
		Expect(fleet.HubClient.List(ctx, requests, client.InNamespace(member.Name))).To(Succeed())
		Expect(requests.Items).To(BeEmpty(), "the commands have deleted theirs")
	}, SpecTimeout(3*fleettest.Patience))
})
