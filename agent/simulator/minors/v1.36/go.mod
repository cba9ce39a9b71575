module github.com/hollowfleet/hollowfleet/agent/simulator/minor

go 1.26.6

require (
	github.com/google/cadvisor v0.56.2
	k8s.io/api v0.36.3
	k8s.io/klog/v2 v2.140.0
	k8s.io/kubernetes v1.36.3
)
