package podhost

import (
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// What a hollow-node requests by default must not be what limits a fleet on a laptop.
// Edge case: 50 hollow nodes filled a CPU; later 1,000 filled a podhost.
func TestTheMachineHoldsItsPodsByTheirRequests(t *testing.T) {
	options := Options{Name: "n", Kubeconfig: "k", DataDir: "d", HollowNodesOf: "h"}
	if err := options.complete(); err != nil {
		t.Fatal(err)
	}
	const hollowNodeMilliCPU, wantPerCPU = 20, 10000
	if fit := options.Capacity.Cpu().MilliValue() / hollowNodeMilliCPU; fit < int64(wantPerCPU*runtime.NumCPU()) {
		t.Errorf("%d hollow nodes fit by their CPU requests, want %d for each CPU", fit, wantPerCPU)
	}
	if pods := options.Capacity.Pods().Value(); pods < 10000 {
		t.Errorf("%d pods fit, want 10000", pods)
	}
	packed := Options{Name: "n", Kubeconfig: "k", DataDir: "d", HollowNodesOf: "h", NodesPerPack: 25}
	if err := packed.complete(); err != nil {
		t.Fatal(err)
	}
	if lone := options.Capacity.Memory().Value(); packed.Capacity.Memory().Value() != 5*lone {
		t.Errorf("packs offer %d bytes and single processes %d, want five times that", packed.Capacity.Memory().Value(), lone)
	}
	options.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")}
	if err := options.complete(); err != nil {
		t.Fatal(err)
	}
	if cpu := options.Capacity.Cpu().String(); cpu != "3" {
		t.Errorf("with 3 CPUs given it offers %s", cpu)
	}
}
