package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/redact"
)

// content are the files of a bundle, and what goes into each. There are no Secrets and no ConfigMaps among them.
var content = []struct {
	file string
	list func() client.ObjectList
	// keep leaves objects out that are not Hollowfleet's; nil keeps all.
	keep func(client.Object) bool
}{
	{"clusters.json", func() client.ObjectList { return &v1alpha1.ClusterList{} }, nil},
	{"machineclasses.json", func() client.ObjectList { return &v1alpha1.MachineClassList{} }, nil},
	{"machinefleets.json", func() client.ObjectList { return &v1alpha1.MachineFleetList{} }, nil},
	{"fleetapprovals.json", func() client.ObjectList { return &v1alpha1.FleetApprovalList{} }, nil},
	{"machinedeployments.json", func() client.ObjectList { return &v1alpha1.MachineDeploymentList{} }, nil},
	{"machinesets.json", func() client.ObjectList { return &v1alpha1.MachineSetList{} }, nil},
	{"machines.json", func() client.ObjectList { return &v1alpha1.MachineList{} }, nil},
	{"nodedisruptions.json", func() client.ObjectList { return &v1alpha1.NodeDisruptionList{} }, nil},
	{"nodedisruptionruns.json", func() client.ObjectList { return &v1alpha1.NodeDisruptionRunList{} }, nil},
	{"loadtests.json", func() client.ObjectList { return &v1alpha1.LoadTestList{} }, nil},
	{"loadtestruns.json", func() client.ObjectList { return &v1alpha1.LoadTestRunList{} }, nil},
	{"simulatedclustersets.json", func() client.ObjectList { return &v1alpha1.SimulatedClusterSetList{} }, nil},
	{"simulatedclusters.json", func() client.ObjectList { return &v1alpha1.SimulatedClusterList{} }, nil},
	{"namespaces.json", func() client.ObjectList { return &corev1.NamespaceList{} }, func(object client.Object) bool {
		return object.GetLabels()[v1alpha1.ManagedByLabel] == v1alpha1.ManagedByHub
	}},
	{"leases.json", func() client.ObjectList { return &coordinationv1.LeaseList{} }, func(object client.Object) bool {
		return object.GetName() == v1alpha1.AgentLeaseName || object.GetName() == v1alpha1.HubLeaseName
	}},
	{"events.json", func() client.ObjectList { return &eventsv1.EventList{} }, func(object client.Object) bool {
		event, ok := object.(*eventsv1.Event)
		return ok && strings.HasPrefix(event.Regarding.APIVersion, v1alpha1.GroupVersion.Group+"/")
	}},
}

// bundle is the archive that is being written.
type bundle struct {
	files  *tar.Writer
	zipped *gzip.Writer
	now    time.Time
	// problems are what could not be collected.
	problems []string
}

func newBundle(out io.Writer, now time.Time) *bundle {
	zipped := gzip.NewWriter(out)
	return &bundle{files: tar.NewWriter(zipped), zipped: zipped, now: now}
}

// collectFiles adds the files of objects. What cannot be read is noted, and keeps no other out.
func (b *bundle) collectFiles(ctx context.Context, c client.Client) error {
	for _, part := range content {
		text, err := readObjects(ctx, c, part.list(), part.keep)
		if err != nil {
			b.problems = append(b.problems, fmt.Sprintf("%s: %v", part.file, err))
			continue
		}
		if err := b.addFile(part.file, text); err != nil {
			return err
		}
	}
	return nil
}

// addEvidence adds logs and metrics.
func (b *bundle) addEvidence(found []evidence) error {
	for _, one := range found {
		if one.problem != "" {
			b.problems = append(b.problems, one.file+": "+cmdutil.EscapeLine(redact.Text(one.problem)))
		}
		if len(one.text) == 0 {
			continue
		}
		if err := b.addFile(one.file, []byte(redact.Text(string(one.text)))); err != nil {
			return err
		}
	}
	return nil
}

// addProblems adds the file that says what is left out.
func (b *bundle) addProblems() error {
	if len(b.problems) == 0 {
		return nil
	}
	return b.addFile("problems.txt", []byte(strings.Join(b.problems, "\n")+"\n"))
}

// readObjects lists objects as JSON, because YAML takes no control characters, and a message may have some. It leaves out what is of
// no use or may repeat a secret: managed fields and the last applied object.
func readObjects(ctx context.Context, c client.Client, list client.ObjectList, keep func(client.Object) bool) ([]byte, error) {
	if err := c.List(ctx, list); err != nil {
		return nil, err
	}
	var kept []runtime.Object
	err := meta.EachListItem(list, func(item runtime.Object) error {
		object, ok := item.(client.Object)
		if !ok || keep != nil && !keep(object) {
			return nil
		}
		object.SetManagedFields(nil)
		annotations := object.GetAnnotations()
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		object.SetAnnotations(annotations)
		kept = append(kept, item)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := meta.SetList(list, kept); err != nil {
		return nil, err
	}
	if err := cmdutil.SetKinds(list); err != nil {
		return nil, err
	}
	return marshalRedacted(list)
}

// marshalRedacted writes an object as JSON, without what looks like a credential: users put them into annotations and messages.
func marshalRedacted(object any) ([]byte, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var values any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&values); err != nil {
		return nil, err
	}
	return json.MarshalIndent(redact.Value(values), "", "  ")
}

func (b *bundle) addFile(name string, text []byte) error {
	header := &tar.Header{Name: "hollowfleet-support/" + name, Mode: 0o600, Size: int64(len(text)), ModTime: b.now}
	if err := b.files.WriteHeader(header); err != nil {
		return fmt.Errorf("writing %s to the bundle: %w", name, err)
	}
	if _, err := b.files.Write(text); err != nil {
		return fmt.Errorf("writing %s to the bundle: %w", name, err)
	}
	return nil
}

// closeArchive ends the archive.
func (b *bundle) closeArchive() error {
	if err := b.files.Close(); err != nil {
		return fmt.Errorf("ending the bundle: %w", err)
	}
	if err := b.zipped.Close(); err != nil {
		return fmt.Errorf("ending the bundle: %w", err)
	}
	return nil
}
