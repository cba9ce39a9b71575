// Package drivertest is the suite that every driver.Driver has to pass.
package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Subject is the driver under test, and what the suite has to know of it.
type Subject struct {
	// Driver of a cluster with no instances but those of other tests.
	Driver driver.Driver
	// Valid and Changed are two valid provider configurations that differ; Invalid is none.
	Valid, Changed, Invalid string
	// InvalidField is the field that the error about Invalid has to name.
	InvalidField string
	// Rigid is set for a provider that cannot update in place.
	Rigid bool
	// Timeout bounds what a provider does behind a call.
	Timeout time.Duration
}

const configPath = "spec.providerConfig.value"

// Run runs the suite. subject is called once for each of its tests.
func Run(t *testing.T, subject func(t *testing.T) Subject) {
	t.Helper()
	tests := map[string]func(t *testing.T, s Subject){
		"should say NotFound for a machine without an instance":              notFound,
		"should create one instance, however often it is asked":              createOnce,
		"should give every machine an instance and a provider ID of its own": testDistinct,
		"should leave an instance of the same configuration alone":           testUnchanged,
		"should bring an instance to a changed configuration":                testChanged,
		"should say before an update whether it can be made in place":        testUpdatable,
		"should say before an update what is wrong with a configuration":     updateInvalid,
		"should not judge without a class":                                   testUnjudged,
		"should delete, and then know nothing of it":                         testDeletes,
		"should take a deletion of nothing for done":                         deletesNothing,
		"should refuse an invalid configuration, and make nothing of it":     testInvalid,
		"should not change what was made when its configuration turns bad":   turnsInvalid,
		"should return when its context has ended":                           testCanceled,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(t, subject(t)) })
	}
}

func newRequest(name, config string) driver.Request {
	machine := &v1alpha1.Machine{}
	machine.Name, machine.Namespace = name, "cluster"
	machine.Spec.ClusterName = "cluster"
	return driver.Request{Machine: machine, Class: &driver.Class{Path: configPath, Config: &runtime.RawExtension{Raw: []byte(config)}}}
}

// machines counts the names given out, so that tests of one provider do not meet.
var machines atomic.Int64

func newMachineName() string { return fmt.Sprintf("conformance-%d", machines.Add(1)) }

func notFound(t *testing.T, s Subject) {
	g := NewWithT(t)
	machine := newMachineName()
	_, err := s.Driver.Get(t.Context(), newRequest(machine, s.Valid))
	expectNotFound(g, err, machine)
	_, err = s.Driver.Update(t.Context(), newRequest(machine, s.Valid))
	expectNotFound(g, err, machine)
}

func expectNotFound(g *WithT, err error, machine string) {
	g.Expect(err).To(MatchError(driver.ErrNotFound))
	var missing *driver.NotFoundError
	g.Expect(errors.As(err, &missing)).To(BeTrue(), "want *NotFoundError, got %T", err)
	g.Expect(missing.Machine).To(Equal(machine))
}

func createOnce(t *testing.T, s Subject) {
	g := NewWithT(t)
	machine := newMachineName()
	first, err := s.Driver.Create(t.Context(), newRequest(machine, s.Valid))
	g.Expect(err).NotTo(HaveOccurred())
	second, err := s.Driver.Create(t.Context(), newRequest(machine, s.Valid))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(first.Name).To(Equal(machine))
	g.Expect(first.ProviderID).NotTo(BeEmpty())
	g.Expect(first.UpToDate).To(BeTrue())
	g.Expect(second.ProviderID).To(Equal(first.ProviderID))
	g.Eventually(func() ([]string, error) { return listInstances(t, s, machine) }).WithTimeout(s.Timeout).Should(HaveLen(1))
	found, err := s.Driver.Get(t.Context(), newRequest(machine, s.Valid))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found.ProviderID).To(Equal(first.ProviderID))
	g.Expect(found.UpToDate).To(BeTrue())
}

// listInstances returns the instances in List that belong to machine.
func listInstances(t *testing.T, s Subject, machine string) ([]string, error) {
	all, err := s.Driver.List(t.Context())
	var names []string
	for _, instance := range all {
		if instance.Name == machine {
			names = append(names, instance.ProviderID)
		}
	}
	return names, err
}

func testDistinct(t *testing.T, s Subject) {
	g := NewWithT(t)
	var ids []string
	for range 3 {
		made, err := s.Driver.Create(t.Context(), newRequest(newMachineName(), s.Valid))
		g.Expect(err).NotTo(HaveOccurred())
		ids = append(ids, made.ProviderID)
	}
	slices.Sort(ids)
	g.Expect(slices.Compact(ids)).To(HaveLen(3))
}

func testUnchanged(t *testing.T, s Subject) {
	g := NewWithT(t)
	machine := newMachineName()
	made, err := s.Driver.Create(t.Context(), newRequest(machine, s.Valid))
	g.Expect(err).NotTo(HaveOccurred())
	if s.Rigid {
		return
	}
	after, err := s.Driver.Update(t.Context(), newRequest(machine, s.Valid))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(after.State).NotTo(Equal(driver.Deleting))
	g.Expect(after.ProviderID).To(Equal(made.ProviderID))
}

func testChanged(t *testing.T, s Subject) {
	g := NewWithT(t)
	machine := newMachineName()
	made, err := s.Driver.Create(t.Context(), newRequest(machine, s.Valid))
	g.Expect(err).NotTo(HaveOccurred())
	found, err := s.Driver.Get(t.Context(), newRequest(machine, s.Changed))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found.UpToDate).To(BeFalse(), "a changed configuration was not noticed")
	if s.Rigid {
		return
	}
	// As the agent does: update what is out of date, create what is gone.
	g.Eventually(func() (bool, error) {
		current, err := s.Driver.Get(t.Context(), newRequest(machine, s.Changed))
		switch {
		case errors.Is(err, driver.ErrNotFound):
			_, err = s.Driver.Create(t.Context(), newRequest(machine, s.Changed))
			return false, err
		case err != nil || current.State == driver.Deleting:
			return false, err
		case !current.UpToDate:
			_, err = s.Driver.Update(t.Context(), newRequest(machine, s.Changed))
			return false, err
		}
		return current.ProviderID == made.ProviderID, nil
	}).WithTimeout(s.Timeout).Should(BeTrue(), "up to date again, with the same provider ID")
}

func testUpdatable(t *testing.T, s Subject) {
	g := NewWithT(t)
	machine := newMachineName()
	made, err := s.Driver.Create(t.Context(), newRequest(machine, s.Valid))
	g.Expect(err).NotTo(HaveOccurred())
	err = s.Driver.CheckUpdate(t.Context(), newRequest(machine, s.Changed))
	if !s.Rigid {
		g.Expect(err).NotTo(HaveOccurred())
	} else {
		expectUnsupported(g, err)
		_, err = s.Driver.Update(t.Context(), newRequest(machine, s.Changed))
		expectUnsupported(g, err)
	}
	after, err := s.Driver.Get(t.Context(), newRequest(machine, s.Valid))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(after.ProviderID).To(Equal(made.ProviderID))
	g.Expect(after.State).NotTo(Equal(driver.Deleting), "asking has changed something")
	g.Expect(after.UpToDate).To(BeTrue(), "asking has changed something")
}

func expectUnsupported(g *WithT, err error) {
	var unsupported *driver.InPlaceUnsupportedError
	g.Expect(err).To(MatchError(driver.ErrInPlaceUnsupported))
	g.Expect(errors.As(err, &unsupported)).To(BeTrue(), "want *InPlaceUnsupportedError, got %T", err)
	g.Expect(unsupported.Problem).NotTo(BeEmpty())
}

func updateInvalid(t *testing.T, s Subject) {
	if s.Rigid {
		t.Skip("nothing is updated in place")
	}
	g := NewWithT(t)
	machine := newMachineName()
	_, err := s.Driver.Create(t.Context(), newRequest(machine, s.Valid))
	g.Expect(err).NotTo(HaveOccurred())
	expectInvalid(g, s.Driver.CheckUpdate(t.Context(), newRequest(machine, s.Invalid)), s.InvalidField)
}

func testUnjudged(t *testing.T, s Subject) {
	g := NewWithT(t)
	want := newRequest(newMachineName(), s.Valid)
	_, err := s.Driver.Create(t.Context(), want)
	g.Expect(err).NotTo(HaveOccurred())
	want.Class = nil
	found, err := s.Driver.Get(t.Context(), want)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found.UpToDate).To(BeTrue())
}

func testDeletes(t *testing.T, s Subject) {
	g := NewWithT(t)
	want := newRequest(newMachineName(), s.Valid)
	_, err := s.Driver.Create(t.Context(), want)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Driver.Delete(t.Context(), want.Machine)).To(Succeed())
	want.Class = nil
	g.Eventually(func() error {
		_, err := s.Driver.Get(t.Context(), want)
		return err
	}).WithTimeout(s.Timeout).Should(MatchError(driver.ErrNotFound))
	g.Eventually(func() ([]string, error) { return listInstances(t, s, want.Machine.Name) }).WithTimeout(s.Timeout).Should(BeEmpty())
	g.Expect(s.Driver.Delete(t.Context(), want.Machine)).To(Succeed(), "deleting again")
}

func deletesNothing(t *testing.T, s Subject) {
	g := NewWithT(t)
	g.Expect(s.Driver.Delete(t.Context(), newRequest(newMachineName(), s.Valid).Machine)).To(Succeed())
}

func testInvalid(t *testing.T, s Subject) {
	g := NewWithT(t)
	machine := newMachineName()
	_, err := s.Driver.Create(t.Context(), newRequest(machine, s.Invalid))
	expectInvalid(g, err, s.InvalidField)
	_, err = s.Driver.Get(t.Context(), newRequest(machine, s.Invalid))
	g.Expect(err).To(MatchError(driver.ErrNotFound), "something was made of an invalid configuration")
	names, err := listInstances(t, s, machine)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(names).To(BeEmpty())
}

func expectInvalid(g *WithT, err error, field string) {
	g.Expect(err).To(MatchError(driver.ErrInvalidConfiguration))
	var bad *driver.InvalidConfigurationError
	g.Expect(errors.As(err, &bad)).To(BeTrue(), "want *InvalidConfigurationError, got %T", err)
	g.Expect(bad.Field).To(Equal(field))
	g.Expect(bad.Problem).NotTo(BeEmpty())
}

func turnsInvalid(t *testing.T, s Subject) {
	g := NewWithT(t)
	machine := newMachineName()
	_, err := s.Driver.Create(t.Context(), newRequest(machine, s.Valid))
	g.Expect(err).NotTo(HaveOccurred())
	found, err := s.Driver.Get(t.Context(), newRequest(machine, s.Invalid))
	g.Expect(err).NotTo(HaveOccurred(), "the instance is there whatever the configuration says")
	if !found.UpToDate && !s.Rigid {
		_, err = s.Driver.Update(t.Context(), newRequest(machine, s.Invalid))
		expectInvalid(g, err, s.InvalidField)
	}
	after, err := s.Driver.Get(t.Context(), newRequest(machine, s.Valid))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(after.State).NotTo(Equal(driver.Deleting))
	g.Expect(after.UpToDate).To(BeTrue())
}

func testCanceled(t *testing.T, s Subject) {
	g := NewWithT(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	machine := newMachineName()
	_, err := s.Driver.Create(ctx, newRequest(machine, s.Valid))
	g.Expect(err).To(HaveOccurred())
	g.Expect(s.Driver.Delete(ctx, newRequest(machine, s.Valid).Machine)).NotTo(Succeed())
	_, err = s.Driver.Get(t.Context(), newRequest(machine, s.Valid))
	g.Expect(err).To(MatchError(driver.ErrNotFound))
}
