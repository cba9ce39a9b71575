package rehearse

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/plural"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/report"
)

// encodeReport writes a report in a format.
func encodeReport(out io.Writer, result *report.Report, form format) error {
	switch form {
	case asJSON:
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(result)
	case asYAML:
		content, err := yaml.Marshal(result)
		if err == nil {
			_, err = out.Write(content)
		}
		return err
	case asHTML:
		return writePage(out, result)
	case asText:
	}
	return result.WriteText(out)
}

// writePreview writes what a rehearsal would make.
func (r *command) writePreview(p *prepared) error {
	var out bytes.Buffer
	if err := r.encodePreview(&out, p); err != nil {
		return err
	}
	if err := r.writeOutput(out.Bytes()); err != nil {
		return err
	}
	for _, problem := range p.skew {
		r.hub.Note("skew policy, after step %q: %s: %s: %s", problem.Step, problem.Group, problem.Problem, problem.Remedy)
	}
	return nil
}

// encodePreview writes the objects, those of the hub first, or a table of them.
func (r *command) encodePreview(out io.Writer, p *prepared) error {
	if r.form == asText {
		return writeSummary(out, p)
	}
	list := struct {
		APIVersion string           `json:"apiVersion"`
		Kind       string           `json:"kind"`
		Items      []runtime.Object `json:"items"`
	}{"v1", "List", []runtime.Object{p.shape.Cluster}}
	for _, deployment := range p.shape.MachineDeployments {
		list.Items = append(list.Items, deployment)
	}
	for _, object := range p.shape.Objects {
		list.Items = append(list.Items, object)
	}
	for _, object := range list.Items {
		if err := cmdutil.SetKinds(object); err != nil {
			return err
		}
	}
	content, err := yaml.Marshal(list)
	if err == nil && r.form == asJSON {
		content, err = json.MarshalIndent(list, "", "  ")
		content = append(content, '\n')
	}
	if err != nil {
		return fmt.Errorf("writing the objects: %w", err)
	}
	_, err = out.Write(content)
	return err
}

func writeSummary(out io.Writer, p *prepared) error {
	w := tabwriter.NewWriter(out, 0, 4, 3, ' ', 0)
	fmt.Fprintf(w, "SimulatedCluster %s/%s with a control plane of %s, which goes to %s, and kubelets to %s\n", p.host, p.name, p.versions.From, p.versions.To, p.versions.Kubelet)
	fmt.Fprintln(w, "\nGROUP\tNODES\tKUBELET\tCPU\tMEMORY\tPODS\tTAINTS\tLABELS")
	for _, group := range p.shape.Groups {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%d\t%d\n", group.Name, group.Nodes, group.Kubelet, group.Allocatable.Cpu(), group.Allocatable.Memory(), group.Allocatable.Pods(), len(group.Taints), len(group.Labels))
	}
	replicas, ready := 0, 0
	for index := range p.shape.Workloads {
		replicas += int(p.shape.Workloads[index].Replicas)
		ready += int(p.shape.Workloads[index].Ready)
	}
	fmt.Fprintf(w, "\n%s with %d replicas beside DaemonSets (%d pods Ready in the cluster), %s, %s\n", plural.Count(len(p.shape.Workloads), "workload"), replicas, ready,
		plural.Count(len(p.inventory.Budgets), "PodDisruptionBudget"), plural.Count(len(p.inventory.PriorityClasses), "PriorityClass"))
	for _, note := range p.shape.Notes {
		fmt.Fprintf(w, "  - %s\n", note)
	}
	return w.Flush()
}
