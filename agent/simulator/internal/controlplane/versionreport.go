package controlplane

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/process"
	"github.com/hollowfleet/hollowfleet/apis/versionreport"
)

// reportPeriod is when the report is looked at again although nothing has changed: a user may have deleted it.
const reportPeriod = 30 * time.Second

// reportVersions keeps the report of what the components run up to date, for as long as the context lasts. When it cannot
// be written, the API server does not answer, which says it all.
func (s *supervisor) reportVersions(ctx context.Context) {
	ticker := time.NewTicker(versionPoll)
	defer ticker.Stop()
	var written versionreport.Report
	var at time.Time
	for {
		if report := s.describeVersions(); report != written || time.Since(at) >= reportPeriod {
			if s.writeReport(ctx, report) == nil {
				written, at = report, time.Now()
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// describeVersions tells what runs. A component has its version once it is healthy with it.
func (s *supervisor) describeVersions() versionreport.Report {
	version := func(component string) string {
		unit, ok := s.units[component]
		minor := s.emulatedMinor(component)
		switch {
		case !ok || unit.Status().State != process.StateRunning:
			return ""
		case minor == codeMinor() && strings.HasPrefix(s.options.Version, "v"+minor+"."):
			return s.options.Version
		}
		return "v" + minor
	}
	report := versionreport.Report{APIServer: version(APIServer), ControllerManager: version(ControllerManager), Scheduler: version(Scheduler)}
	if problem := s.versionProblem.Load(); problem != nil {
		// What follows are lines of a log, which is not for everyone.
		report.Problem, _, _ = strings.Cut(*problem, "\n")
	}
	return report
}

// writeReport writes it where everyone may read it.
func (s *supervisor) writeReport(ctx context.Context, report versionreport.Report) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	if err := s.allowReading(ctx); err != nil {
		return err
	}
	configMaps := s.client.CoreV1().ConfigMaps(versionreport.Namespace)
	found, err := configMaps.Get(ctx, versionreport.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: reportMeta(), Data: report.Data()}, metav1.CreateOptions{})
	case err == nil && !maps.Equal(found.Data, report.Data()):
		found.Data = report.Data()
		_, err = configMaps.Update(ctx, found, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("reporting the versions of the components: %w", err)
	}
	return nil
}

// allowReading lets everyone read the report.
func (s *supervisor) allowReading(ctx context.Context) error {
	role := &rbacv1.Role{ObjectMeta: reportMeta(), Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{versionreport.Name}, Verbs: []string{"get"},
	}}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: reportMeta(), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: versionreport.Name},
		Subjects: []rbacv1.Subject{
			{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:unauthenticated"},
			{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:authenticated"},
		},
	}
	if _, err := s.client.RbacV1().Roles(versionreport.Namespace).Create(ctx, role, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("letting everyone read the versions of the components: %w", err)
	}
	if _, err := s.client.RbacV1().RoleBindings(versionreport.Namespace).Create(ctx, binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("letting everyone read the versions of the components: %w", err)
	}
	return nil
}

func reportMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: versionreport.Namespace, Name: versionreport.Name}
}
