package minor

import (
	"context"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	drahealth "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
)

// healthTimeout is how long a kubelet believes what a driver has told of a device, which tells it again twice as often.
const healthTimeout = 10 * time.Minute

// DRADriver is a DRA driver of one node.
type DRADriver interface {
	// PrepareResourceClaims, UnprepareResourceClaims and HandleError are those of a kubeletplugin.DRAPlugin.
	PrepareResourceClaims(context.Context, []*resourcev1.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error)
	UnprepareResourceClaims(context.Context, []kubeletplugin.NamespacedObject) (map[types.UID]error, error)
	HandleError(ctx context.Context, err error, msg string)
	// ListHealth returns whether each device of the pool is healthy, and a channel that is closed when that changes.
	ListHealth() (pool string, healthy map[string]bool, changed <-chan struct{})
}

// ServeDriver serves a driver on its socket until ctx ends, and returns the services that it offers to the kubelet.
func ServeDriver(ctx context.Context, driver DRADriver, options ...kubeletplugin.Option) (services []string, err error) {
	_, err = kubeletplugin.Start(ctx, reportingDriver{DRADriver: driver}, append(options, kubeletplugin.RegistrationService(false),
		kubeletplugin.NodeV1beta1(false))...)
	return []string{drapb.DRAPluginService, drahealth.DRAResourceHealth_ServiceDesc.ServiceName}, err
}

// reportingDriver reports the health of the devices of a driver.
type reportingDriver struct {
	DRADriver
	drahealth.UnimplementedDRAResourceHealthServer
}

// NodeWatchResources reports the health of all devices, and again when it changes.
func (d reportingDriver) NodeWatchResources(_ *drahealth.NodeWatchResourcesRequest, stream drahealth.DRAResourceHealth_NodeWatchResourcesServer) error {
	for {
		report, changed := d.makeReport()
		if err := stream.Send(report); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-time.After(healthTimeout / 2):
		case <-stream.Context().Done():
			return nil
		}
	}
}

func (d reportingDriver) makeReport() (report *drahealth.NodeWatchResourcesResponse, changed <-chan struct{}) {
	pool, devices, changed := d.ListHealth()
	report = &drahealth.NodeWatchResourcesResponse{}
	for name, healthy := range devices {
		health := drahealth.HealthStatus_UNHEALTHY
		if healthy {
			health = drahealth.HealthStatus_HEALTHY
		}
		report.Devices = append(report.Devices, &drahealth.DeviceHealth{
			Device: &drahealth.DeviceIdentifier{PoolName: pool, DeviceName: name}, Health: health,
			LastUpdatedTime: time.Now().Unix(), HealthCheckTimeoutSeconds: int64(healthTimeout / time.Second),
		})
	}
	return report, changed
}
