module github.com/hollowfleet/hollowfleet/agent/simulator/minor

go 1.26.6

require (
	github.com/google/cadvisor/lib v0.60.5
	google.golang.org/grpc v1.82.1
	k8s.io/api v0.37.1
	k8s.io/apimachinery v0.37.1
	k8s.io/client-go v0.37.1
	k8s.io/cri-api v0.37.1
	k8s.io/dynamic-resource-allocation v0.37.1
	k8s.io/klog/v2 v2.140.0
	k8s.io/kubelet v0.37.1
	k8s.io/kubernetes v1.37.1
)
