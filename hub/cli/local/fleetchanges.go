//go:build linux

package local

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
)

// remedies say how to change what a fleet was started with while it runs, by fields; the other fields that matter to it cannot be changed.
var remedies = map[string]string{
	"clusters":        "kubectl scale simulatedclusterset " + localfleet.SetName + " --replicas NUMBER",
	"machines":        "kubectl -n CLUSTER scale machinedeployment " + localfleet.WorkersName + " --replicas NUMBER",
	"kubeletVersions": "kubectl hollow upgrade machinedeployment/" + localfleet.WorkersName + " -n CLUSTER --kubelet VERSION",
}

// describeChanges says what the file wants that the fleet in the directory was not started with, and what helps. It is
// empty if nothing is, or it is not known what that fleet was started with.
func (o *upOptions) describeChanges() string {
	if o.file == "" {
		return ""
	}
	recorded, err := os.ReadFile(filepath.Join(o.dir, localfleet.ConfigFile))
	if err != nil {
		return ""
	}
	before, err := decodeFile(recorded)
	if err != nil {
		return ""
	}
	content, err := o.effective().encode()
	if err != nil {
		return ""
	}
	now, err := decodeFile(content)
	if err != nil {
		return ""
	}
	text := ""
	for _, field := range slices.Sorted(maps.Keys(fieldFlags)) {
		if o.named[fieldFlags[field]] == "" || field == "dir" || field == "timeout" || field == "ignorePreflightErrors" || slices.Equal(before[field], now[field]) {
			continue
		}
		remedy := "it cannot be changed: end the fleet, and start it from the file"
		if command := remedies[field]; command != "" {
			remedy = "change it with " + command
		}
		text += fmt.Sprintf("\n  %s: it was started with %s, not %s; %s", field, describeTexts(before[field]), describeTexts(now[field]), remedy)
	}
	return text
}

func describeTexts(texts []string) string {
	if len(texts) == 0 {
		return "the default"
	}
	return strings.Join(texts, ", ")
}
