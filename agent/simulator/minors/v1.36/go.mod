module github.com/hollowfleet/hollowfleet/agent/simulator/minor

go 1.26.6

require (
	github.com/google/cadvisor v0.56.2
	k8s.io/api v0.36.3
	k8s.io/apimachinery v0.36.3
	k8s.io/client-go v0.36.3
	k8s.io/cri-api v0.36.3
	k8s.io/dynamic-resource-allocation v0.36.3
	k8s.io/klog/v2 v2.140.0
	k8s.io/kubelet v0.36.3
	k8s.io/kubernetes v1.36.3
)
