package hollow

import (
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/config"
)

func fidelityFor(t *testing.T, fields string) (*hollownode.Fidelity, error) {
	t.Helper()
	config, err := decodeConfig(&runtime.RawExtension{Raw: []byte(`{` + head + fields + `}`)}, "c")
	if err != nil {
		return nil, err
	}
	return fidelityOf(config, "c")
}

func TestFidelity(t *testing.T) {
	realistic := func(change func(*hollownode.Fidelity)) *hollownode.Fidelity {
		fidelity := hollownode.Realistic()
		change(&fidelity)
		return &fidelity
	}
	fast := func(change func(*hollownode.Fidelity)) *hollownode.Fidelity {
		fidelity := hollownode.Fast()
		change(&fidelity)
		return &fidelity
	}
	for name, test := range map[string]struct {
		fields string
		want   *hollownode.Fidelity
	}{
		"nothing":   {``, nil},
		"Fast":      {`,"profile":"Fast"`, nil},
		"Realistic": {`,"profile":"Realistic"`, realistic(func(*hollownode.Fidelity) {})},
		"what Fast has, by its fields": {`,"probes":"Skip","terminationPercent":0,"imagePull":{"bytesPerSecond":0,"failurePercent":0,"seed":9},` +
			`"kubelet":{"eventRecordQPS":5,"eventBurst":20,"registryPullQPS":0,"registryBurst":10,"serializeImagePulls":false,` +
			`"configMapAndSecretChangeDetectionStrategy":"Cache","podCertificateRequests":false,"enableServer":false,"nodeLeaseDurationSeconds":40,"nodeStatusUpdateFrequency":"10s"}`, nil},
		"slow heartbeats": {`,"kubelet":{"nodeLeaseDurationSeconds":120,"nodeStatusUpdateFrequency":"30s"}`, fast(func(f *hollownode.Fidelity) {
			f.Kubelet.NodeLeaseDurationSeconds, f.Kubelet.NodeStatusUpdateFrequency.Duration = 120, 30*time.Second
		})},
		"the kubelet's API":    {`,"kubelet":{"enableServer":true}`, fast(func(f *hollownode.Fidelity) { f.Kubelet.EnableServer = true })},
		"registered once":      {`,"registration":"Once"`, fast(func(f *hollownode.Fidelity) { f.RegisterOnce = true })},
		"registered again":     {`,"registration":"Repeat"`, nil},
		"one of Fast replaced": {`,"terminationPercent":50`, fast(func(f *hollownode.Fidelity) { f.TerminationPercent = 50 })},
		"probes alone":         {`,"probes":"Run"`, fast(func(f *hollownode.Fidelity) { f.Probes = hollownode.ProbesRun })},
		"each of Realistic replaced": {`,"profile":"Realistic","probes":"Skip","terminationPercent":0,"imagePull":{"bytesPerSecond":"1Gi","failurePercent":3,"seed":-4},` +
			`"kubelet":{"eventRecordQPS":0,"eventBurst":1,"registryPullQPS":6,"registryBurst":7,"maxParallelImagePulls":8,` +
			`"configMapAndSecretChangeDetectionStrategy":"Get","podCertificateRequests":false,"enableServer":false}`, &hollownode.Fidelity{
			Probes:    hollownode.ProbesSkip,
			ImagePull: hollownode.ImagePull{BytesPerSecond: 1 << 30, FailurePercent: 3, Seed: -4},
			Kubelet: hollownode.Kubelet{
				EventBurst: 1, RegistryPullQPS: 6, RegistryBurst: 7, MaxParallelImagePulls: 8,
				ConfigMapAndSecretChangeDetectionStrategy: hollownode.ChangeDetectionGet,
			},
		}},
		"one pull at a time": {`,"profile":"Realistic","kubelet":{"maxParallelImagePulls":1}`,
			realistic(func(f *hollownode.Fidelity) { f.Kubelet.MaxParallelImagePulls = 1 })},
		"parallel pulls": {`,"profile":"Realistic","kubelet":{"serializeImagePulls":false}`,
			realistic(func(f *hollownode.Fidelity) { f.Kubelet.SerializeImagePulls = false })},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := fidelityFor(t, test.fields)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got != nil && got.Validate() != nil {
				t.Errorf("a hollow-node would refuse it: %v", got.Validate())
			}
		})
	}
}

func TestFidelityRefuses(t *testing.T) {
	const rate = `want bytes per second such as "50Mi", from 64Ki to 1Ti, or "0" for pulls that take no time, got `
	for fields, want := range map[string]string{
		`"profile":"Slow"`:                            `c.profile: want Fast or Realistic, got "Slow"`,
		`"profile":null`:                              `c.profile: want Fast or Realistic, got null`,
		`"probes":true`:                               `c.probes: want Skip or Run, got true`,
		`"terminationPercent":101`:                    `c.terminationPercent: want a whole number from 0 to 100, got 101`,
		`"registration":"Never"`:                      `c.registration: want Repeat or Once, got "Never"`,
		`"terminationPercent":null`:                   `c.terminationPercent: want a whole number from 0 to 100, got null`,
		`"imagePull":"slow"`:                          `c.imagePull: want an object, got "slow"`,
		`"imagePull":{"bandwidth":"1Mi"}`:             `c.imagePull.bandwidth: unknown field: imagePull has bytesPerSecond, failurePercent, seed`,
		`"imagePull":{"bytesPerSecond":"1"}`:          `c.imagePull.bytesPerSecond: ` + rate + `"1"`,
		`"imagePull":{"bytesPerSecond":"2Ti"}`:        `c.imagePull.bytesPerSecond: ` + rate + `"2Ti"`,
		`"imagePull":{"bytesPerSecond":"-1Mi"}`:       `c.imagePull.bytesPerSecond: ` + rate + `"-1Mi"`,
		`"imagePull":{"bytesPerSecond":"1e-2000000"}`: `c.imagePull.bytesPerSecond: ` + rate + `"1e-2000000"`,
		`"imagePull":{"failurePercent":-1}`:           `c.imagePull.failurePercent: want a whole number from 0 to 100, got -1`,
		`"imagePull":{"seed":0.5}`:                    `c.imagePull.seed: want a whole number, got 0.5`,
		`"kubelet":[]`:                                `c.kubelet: want an object, got []`,
		`"kubelet":{"maxPods":5}`: `c.kubelet.maxPods: unknown field: kubelet has configMapAndSecretChangeDetectionStrategy, enableServer, eventBurst, eventRecordQPS, ` +
			`maxParallelImagePulls, nodeLeaseDurationSeconds, nodeStatusUpdateFrequency, podCertificateRequests, registryBurst, registryPullQPS, serializeImagePulls`,
		`"kubelet":{"eventBurst":0}`:                                    `c.kubelet.eventBurst: want a whole number from 1 to 10000, got 0`,
		`"kubelet":{"nodeLeaseDurationSeconds":0}`:                      `c.kubelet.nodeLeaseDurationSeconds: want a whole number from 4 to 3600, got 0`,
		`"kubelet":{"nodeStatusUpdateFrequency":"0s"}`:                  `c.kubelet.nodeStatusUpdateFrequency: want a duration such as "30s", from 1s to 5m, got "0s"`,
		`"kubelet":{"serializeImagePulls":"no"}`:                        `c.kubelet.serializeImagePulls: want true or false, got "no"`,
		`"kubelet":{"configMapAndSecretChangeDetectionStrategy":"TTL"}`: `c.kubelet.configMapAndSecretChangeDetectionStrategy: want Watch or Cache or Get, got "TTL"`,
		`"kubelet":{"serializeImagePulls":true,"maxParallelImagePulls":5}`: `c.kubelet.maxParallelImagePulls: cannot pull 5 images at a time while images are pulled one by one: ` +
			`set serializeImagePulls to false, or remove one of the two`,
	} {
		t.Run(fields, func(t *testing.T) {
			_, err := fidelityFor(t, ","+fields)
			if !errors.Is(err, driver.ErrInvalidConfiguration) || err.Error() != want {
				t.Errorf("\n got %v\nwant %s", err, want)
			}
		})
	}
}

// The sample is what a user starts with.
func TestTheSampleIsRealistic(t *testing.T) {
	text, err := os.ReadFile("../../../config/samples/machineclass-realistic.yaml")
	if err != nil {
		t.Fatal(err)
	}
	class := &v1alpha1.MachineClass{}
	if err := yaml.UnmarshalStrict(text, class); err != nil {
		t.Fatal(err)
	}
	config, err := decodeConfig(class.Spec.ProviderConfig, "spec.providerConfig")
	if err != nil {
		t.Fatal(err)
	}
	got, err := fidelityOf(config, "spec.providerConfig")
	want := hollownode.Realistic()
	want.Kubelet.EnableServer = true
	want.TerminationPercent, want.ImagePull = 50, hollownode.ImagePull{BytesPerSecond: 100 << 20, FailurePercent: 2, Seed: 1}
	if err != nil || got == nil || *got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// Claim: Each HollowNodeConfig of the samples is valid. Broken: a field of one misspelled; a profile that there is not.
func TestSamplesAreValid(t *testing.T) {
	objects, err := config.Read(os.DirFS("../../../config"), "samples")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	var check func(value any, path string)
	check = func(value any, path string) {
		fields, _ := value.(map[string]any)
		for name, each := range fields {
			check(each, path+"."+name)
		}
		items, _ := value.([]any)
		for _, each := range items {
			check(each, path+"[]")
		}
		if fields["kind"] != v1alpha1.HollowNodeConfigKind {
			return
		}
		count++
		raw, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := decodeConfig(&runtime.RawExtension{Raw: raw}, path)
		if err == nil {
			_, err = fidelityOf(decoded, path)
		}
		if err != nil {
			t.Error(err)
		}
	}
	for _, object := range objects {
		check(object.Object, object.GetKind()+" "+object.GetName())
	}
	if count < 4 {
		t.Errorf("%d were found only", count)
	}
}

// Claim: Heartbeats too rare for the grace period of a cluster are refused. Broken: new.
func TestHeartbeatsFitTheGracePeriodOfTheCluster(t *testing.T) {
	for name, test := range map[string]struct {
		lease   int32
		grace   time.Duration
		refused bool
	}{
		"the kubelet's, shortest default": {0, DefaultGracePeriod, false},
		"slow":                            {120, DefaultGracePeriod, false},
		"slower":                          {121, DefaultGracePeriod, true},
		"slower, in a patient cluster":    {600, 200 * time.Second, false},
		"the kubelet's, too slow":         {0, 13 * time.Second, true},
		"fast, in an impatient cluster":   {20, 13 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkHeartbeat(hollownode.Kubelet{NodeLeaseDurationSeconds: test.lease}, test.grace, "c.kubelet")
			if errors.Is(err, driver.ErrInvalidConfiguration) != test.refused || (err == nil) == test.refused {
				t.Errorf("got %v, want refused %t", err, test.refused)
			}
		})
	}
	err := checkHeartbeat(hollownode.Kubelet{NodeLeaseDurationSeconds: 200}, DefaultGracePeriod, "c.kubelet")
	const want = `c.kubelet.nodeLeaseDurationSeconds: the Node would renew its Lease only every 50s, too rarely for a grace period of 40s: use at most 120; ` +
		`or raise --node-monitor-grace-period of the cluster's kube-controller-manager, and of its agent`
	if err == nil || err.Error() != want {
		t.Errorf("\n got %v\nwant %s", err, want)
	}
}
