package fakecri

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Claim: Distinct pod IPs of the pod CIDR. Broken: a used address is handed out.
func TestAddressesComeFromThePodCIDRAndAreUsedAgainOnlyAfterRemoval(t *testing.T) {
	ctx := context.Background()
	f := newEnv(t, Options{})
	f.setCIDR("10.9.8.0/29") // .2 to .6: without network, gateway and broadcast
	seen := map[string]string{}
	for i := range 5 {
		id := f.run(podConfig(fmt.Sprint("p", i), nil))
		ip := f.ip(id)
		if seen[ip] != "" {
			t.Fatalf("address %s given out twice", ip)
		}
		seen[ip] = id
	}
	for _, ip := range []string{"10.9.8.2", "10.9.8.3", "10.9.8.4", "10.9.8.5", "10.9.8.6"} {
		if seen[ip] == "" {
			t.Errorf("address %s not used; used: %v", ip, seen)
		}
	}
	_, err := f.RunPodSandbox(ctx, podConfig("late", nil), "")
	if err == nil || !strings.Contains(err.Error(), "10.9.8.0/29") || !strings.Contains(err.Error(), "default/late") {
		t.Fatalf("with every address in use: want an error that names CIDR and pod, got %v", err)
	}
	if err := f.StopPodSandbox(ctx, seen["10.9.8.4"]); err != nil {
		t.Fatal(err)
	}
	if _, err := f.RunPodSandbox(ctx, podConfig("late", nil), ""); err == nil {
		t.Fatal("a stopped sandbox gave its address away before it was removed")
	}
	if err := f.RemovePodSandbox(ctx, seen["10.9.8.4"]); err != nil {
		t.Fatal(err)
	}
	if got := f.ip(f.run(podConfig("late", nil))); got != "10.9.8.4" {
		t.Errorf("want the address that became free, got %s", got)
	}
}

func TestAddresses(t *testing.T) {
	for name, test := range map[string]struct {
		cidr string
		want []string
	}{
		"IPv4":       {"10.1.0.0/24", []string{"10.1.0.2"}},
		"IPv6":       {"fd00:1::/64", []string{"fd00:1::2"}},
		"dual-stack": {"10.1.0.0/24,fd00:1::/64", []string{"10.1.0.2", "fd00:1::2"}},
		"unaligned":  {"10.1.0.77/24", []string{"10.1.0.2"}},
		"smallest":   {"10.1.0.0/30", []string{"10.1.0.2"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t, Options{})
			f.setCIDR(test.cidr)
			response, err := f.PodSandboxStatus(context.Background(), f.run(podConfig("p", nil)), false)
			if err != nil {
				t.Fatal(err)
			}
			got := []string{response.Status.Network.Ip}
			for _, additional := range response.Status.Network.AdditionalIps {
				got = append(got, additional.Ip)
			}
			if fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("want %v, got %v", test.want, got)
			}
		})
	}
	for _, cidr := range []string{"10.1.0.0/31", "10.1.0.0/32"} {
		f := newEnv(t, Options{})
		f.setCIDR(cidr)
		if _, err := f.RunPodSandbox(context.Background(), podConfig("p", nil), ""); err == nil {
			t.Errorf("%s has no address for a pod, yet one was given out", cidr)
		}
	}
	f := newEnv(t, Options{})
	err := f.UpdateRuntimeConfig(context.Background(),
		&runtimeapi.RuntimeConfig{NetworkConfig: &runtimeapi.NetworkConfig{PodCidr: "10.1.0.0"}})
	if err == nil || !strings.Contains(err.Error(), "networkConfig.podCidr") {
		t.Errorf("want an error that names the field, got %v", err)
	}
}

func TestHostNetworkTakesNoAddress(t *testing.T) {
	f := newEnv(t, Options{})
	config := podConfig("p", nil)
	config.Linux = &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE},
	}}
	id := f.run(config) // works without any CIDR
	response, err := f.PodSandboxStatus(context.Background(), id, false)
	if err != nil {
		t.Fatal(err)
	}
	if ip := response.Status.Network.Ip; ip != "" {
		t.Errorf("want no address, got %s", ip)
	}
	if mode := response.Status.Linux.Namespaces.Options.Network; mode != runtimeapi.NamespaceMode_NODE {
		t.Errorf("want the node's network namespace reported, got %s", mode)
	}
}

func (f env) condition(name string) *runtimeapi.RuntimeCondition {
	f.Helper()
	response, err := f.Status(context.Background(), false)
	if err != nil {
		f.Fatal(err)
	}
	for _, condition := range response.Status.Conditions {
		if condition.Type == name {
			return condition
		}
	}
	f.Fatalf("no condition %s", name)
	return nil
}

func TestNetworkWaitsForThePodCIDRAndFallsBack(t *testing.T) {
	f := newEnv(t, Options{FallbackPodCIDR: netip.MustParsePrefix("100.64.7.0/24"), PodCIDRGrace: 15 * time.Second})
	if f.condition(runtimeapi.NetworkReady).Status {
		t.Error("the network is ready without a pod CIDR")
	}
	if _, err := f.RunPodSandbox(context.Background(), podConfig("p", nil), ""); err == nil {
		t.Error("a pod started without a pod CIDR")
	}
	f.advance(15 * time.Second)
	if !f.condition(runtimeapi.NetworkReady).Status {
		t.Error("the network is not ready after the grace time")
	}
	if ip := f.ip(f.run(podConfig("p", nil))); ip != "100.64.7.2" {
		t.Errorf("want an address of the fallback, got %s", ip)
	}
	f.setCIDR("10.1.0.0/24")
	if ip := f.ip(f.run(podConfig("q", nil))); ip != "10.1.0.2" {
		t.Errorf("want an address of the pod CIDR once it is there, got %s", ip)
	}
}
