package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	loadTestName = "demo"
	loadPods     = 10
)

// newLoadTest starts a few pods in each cluster at the same time.
func newLoadTest() *v1alpha1.LoadTest {
	test := &v1alpha1.LoadTest{ObjectMeta: metav1.ObjectMeta{Name: loadTestName}}
	test.Spec.ClusterSelector = workloadClusters()
	test.Spec.Preset = &v1alpha1.LoadPreset{Name: "pod-startup", Pods: loadPods, QPS: 20}
	return test
}

// loadTest loads all clusters together, and has kubectl hollow write the report, which stays when the fleet is gone.
func (d *demo) loadTest(ctx context.Context) error {
	test := newLoadTest()
	if err := d.fleet.client.Create(ctx, test); err != nil {
		return fmt.Errorf("creating LoadTest %s: %w", loadTestName, err)
	}
	d.say("created LoadTest %s, which starts %d pods in each cluster", loadTestName, loadPods)
	d.expect(ctx, "LoadTest "+loadTestName+" is over, and what it made is gone", "hub", wait, d.loadTestOver())
	pods := int64(loadPods * len(d.fleet.members))
	d.expect(ctx, fmt.Sprintf("the time to Ready of %d pods was measured", pods), "hub", wait, d.loadTestMeasured(pods))
	file, err := os.CreateTemp("", "hollowfleet-demo-*.html")
	if err != nil {
		return fmt.Errorf("making a file for the report of LoadTest %s: %w", loadTestName, err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("making a file for the report of LoadTest %s: %w", loadTestName, err)
	}
	if err := d.fleet.run(ctx, io.Discard, "loadtest", "report", loadTestName, "-o", "html", "--output-file", file.Name(), "--kubeconfig", d.fleet.hub.Kubeconfig); err != nil {
		return err
	}
	d.report = file.Name()
	d.say("the report of LoadTest %s is in %s", loadTestName, d.report)
	return nil
}

// loadTestOver holds when all runs have ended in full.
func (d *demo) loadTestOver() look {
	return func(ctx context.Context) (string, bool, error) {
		test := &v1alpha1.LoadTest{}
		if err := d.fleet.client.Get(ctx, client.ObjectKey{Name: loadTestName}, test); err != nil {
			return "", false, err
		}
		seen := fmt.Sprintf("%s, %d of %d clusters", test.Status.Phase, test.Status.Completed, test.Status.Clusters)
		if test.Status.Phase == v1alpha1.LoadTestPhaseCompleted && test.Status.Failed == 0 {
			return seen, true, nil
		}
		return seen + ": " + test.Status.Message, false, nil
	}
}

// loadTestMeasured holds when as many pods were measured as were made.
func (d *demo) loadTestMeasured(pods int64) look {
	return func(ctx context.Context) (string, bool, error) {
		test := &v1alpha1.LoadTest{}
		if err := d.fleet.client.Get(ctx, client.ObjectKey{Name: loadTestName}, test); err != nil {
			return "", false, err
		}
		for _, result := range test.Status.Results {
			if result.Measurement == v1alpha1.LoadPodReady {
				return fmt.Sprintf("%d, p99 %s, worst in %s", result.Count, result.P99.Round(time.Millisecond), result.WorstCluster), result.Count == pods, nil
			}
		}
		return "nothing was measured", false, nil
	}
}
