package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

// disruptFlags are what a NodeDisruption is made of on the command line.
type disruptFlags struct {
	clusters, machines, exclude, deployment, schedule, maxUnavailable string
	zones, faults, expect                                             []string
	mode                                                              disrupt.Mode
	value, repeat                                                     int32
	seed                                                              int64
	duration, startAfter, healthyFor, unhealthyFor, jitter            time.Duration
	// all are these flags.
	all []*pflag.Flag
}

// givenFlags are the names of those that the command line has.
func (f *disruptFlags) givenFlags() (names []string) {
	for _, flag := range f.all {
		if flag.Changed {
			names = append(names, flag.Name)
		}
	}
	return names
}

// addFlags adds the flags to a command that has no others yet.
func (f *disruptFlags) addFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&f.clusters, "clusters", "", cmdutil.ClustersUsage)
	flags.StringVarP(&f.machines, "selector", "l", "", "label selector of Machines (default: all)")
	flags.StringVar(&f.exclude, "exclude", "", "label selector of Machines to spare")
	flags.StringVar(&f.deployment, "machine-deployment", "", "name of the MachineDeployment whose Machines to hit")
	flags.StringSliceVar(&f.zones, "zone", nil, "zones whose Nodes to hit")
	cmdutil.Choice(command, &f.mode, "mode", "how many Nodes to hit in each cluster; Fixed and Percent need --value", disrupt.ModeOne, disrupt.ModeAll, disrupt.ModeFixed, disrupt.ModePercent)
	flags.Int32Var(&f.value, "value", 0, "number of Nodes for Fixed, percentage for Percent")
	flags.StringVar(&f.maxUnavailable, "max-unavailable", "", "most Nodes of the target that may be unavailable at once: a number or a percentage")
	flags.Int64Var(&f.seed, "seed", 0, "seed of the choice of Nodes: the same seed hits the same Nodes (default 0; a schedule uses another one for each run)")
	flags.StringArrayVar(&f.faults, "fault", nil, "fault: NotReady, FreezeHeartbeat[:Lease|Status], Flap:NOTREADY/READY, Kill, Reboot, Shutdown, RestartKubelet, Pressure:Memory, Condition:TYPE, "+
		"SlowAPI:LATENCY, APIErrors[:PERCENT], PodStartDelay:DELAY, PodStartFail[:PERCENT], DeviceFailure[:RESOURCE|DRIVER[=COUNT][:EFFECT]], NeverJoin; can be given several times")
	flags.DurationVar(&f.duration, "for", 0, "how long the disruption lasts, 1s to 720h")
	flags.DurationVar(&f.startAfter, "start-after", 0, "when it starts")
	flags.DurationVar(&f.healthyFor, "healthy-for", 0, "how long Nodes are healthy before each window")
	flags.DurationVar(&f.unhealthyFor, "unhealthy-for", 0, "length of a window (default: one window until the end)")
	flags.DurationVar(&f.jitter, "jitter", 0, "random delay of each window, at most this")
	flags.Int32Var(&f.repeat, "repeat", 0, "number of windows (default: as many as fit)")
	flags.StringVar(&f.schedule, "schedule", "", `start again by this schedule: five fields of crontab in UTC, such as "0 3 * * *"`)
	flags.StringArrayVar(&f.expect, "expect", nil, "expectation for each Node, with its deadline: condition=TYPE:STATUS@1m, taint=KEY[:EFFECT]@1m, evicted@5m, replaced@10m; can be given several times")
	flags.VisitAll(func(flag *pflag.Flag) { f.all = append(f.all, flag) })
}

// validateFlags returns what is wrong with flags that need or contradict each other.
func (f *disruptFlags) validateFlags() error {
	switch {
	case (f.mode == disrupt.ModeFixed || f.mode == disrupt.ModePercent) && f.value <= 0:
		return cmdutil.Usage("--mode %s needs --value, more than 0", f.mode)
	case len(f.faults) == 0 || f.duration == 0:
		return cmdutil.Usage("give --fault and --for, or -f: see --help")
	case f.machines != "" && f.machines == f.exclude:
		return cmdutil.Usage("--selector and --exclude are the same: no Node would be hit")
	}
	return nil
}

// specOf is what the flags say.
func (f *disruptFlags) specOf() (v1alpha1.NodeDisruptionSpec, error) {
	spec := v1alpha1.NodeDisruptionSpec{Schedule: f.schedule}
	if err := f.validateFlags(); err != nil {
		return spec, err
	}
	spec.Target.MachineDeployment, spec.Target.Zones = f.deployment, f.zones
	if slices.Contains(f.givenFlags(), "seed") {
		spec.Seed = &f.seed
	}
	spec.Target.Mode, spec.Target.Value = f.mode, f.value
	spec.Timing = v1alpha1.DisruptionTiming{
		Duration: metav1.Duration{Duration: f.duration}, StartAfter: metav1.Duration{Duration: f.startAfter}, HealthyFor: metav1.Duration{Duration: f.healthyFor},
		UnhealthyFor: metav1.Duration{Duration: f.unhealthyFor}, Jitter: metav1.Duration{Duration: f.jitter}, Repeat: f.repeat,
	}
	var err error
	if spec.Target.MachineSelector, err = parseSelector("selector", f.machines); err != nil {
		return spec, err
	}
	if spec.Target.Exclude, err = parseSelector("exclude", f.exclude); err != nil {
		return spec, err
	}
	clusters, err := parseSelector("clusters", f.clusters)
	if err != nil {
		return spec, err
	}
	if spec.ClusterSelector = clusters; clusters == nil {
		spec.ClusterSelector = cmdutil.AllClusters()
	}
	if f.maxUnavailable != "" {
		most := intstr.Parse(f.maxUnavailable)
		spec.Target.MaxUnavailable = &most
	}
	for _, text := range f.faults {
		fault, err := parseFault(text)
		if err != nil {
			return spec, cmdutil.Usage("--fault %s: %w", text, err)
		}
		spec.Faults = append(spec.Faults, fault)
	}
	for _, text := range f.expect {
		expectation, err := parseExpectation(text)
		if err != nil {
			return spec, cmdutil.Usage("--expect %s: %w", text, err)
		}
		spec.Expectations = append(spec.Expectations, expectation)
	}
	return spec, nil
}

// parseSelector reads the value of a flag. Of an empty one there is no selector.
func parseSelector(flag, text string) (*metav1.LabelSelector, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // No selector is a value of the field.
	}
	selector, err := metav1.ParseToLabelSelector(text)
	if err != nil {
		return nil, cmdutil.Usage("--%s: %q is not a label selector: %w", flag, text, err)
	}
	return selector, nil
}

// faultParameters read the parameter of a fault, by its type.
var faultParameters = map[disrupt.FaultType]func(*disrupt.Fault, string) error{
	disrupt.FreezeHeartbeat: func(fault *disrupt.Fault, text string) error {
		fault.FreezeHeartbeat = &disrupt.FreezeHeartbeatParameters{Heartbeat: disrupt.FrozenHeartbeat(text)}
		return nil
	},
	disrupt.Flap: func(fault *disrupt.Fault, text string) error {
		notReady, ready, _ := strings.Cut(text, "/")
		fault.Flap = &disrupt.FlapParameters{}
		return errors.Join(parseDuration(&fault.Flap.NotReadyFor, notReady), parseDuration(&fault.Flap.ReadyFor, ready))
	},
	disrupt.Pressure: func(fault *disrupt.Fault, text string) error {
		fault.Pressure = &disrupt.PressureParameters{}
		for resource := range strings.SplitSeq(text, ",") {
			fault.Pressure.Resources = append(fault.Pressure.Resources, disrupt.PressureResource(resource))
		}
		return nil
	},
	disrupt.Condition: func(fault *disrupt.Fault, text string) error {
		fault.Condition = &disrupt.ConditionParameters{Type: corev1.NodeConditionType(text)}
		return nil
	},
	disrupt.SlowAPI: func(fault *disrupt.Fault, text string) error {
		fault.SlowAPI = &disrupt.SlowAPIParameters{}
		return parseDuration(&fault.SlowAPI.Latency, text)
	},
	disrupt.APIErrors: func(fault *disrupt.Fault, text string) error {
		fault.APIErrors = &disrupt.APIErrorsParameters{}
		return parsePercent(&fault.APIErrors.Percent, text)
	},
	disrupt.PodStartDelay: func(fault *disrupt.Fault, text string) error {
		fault.PodStartDelay = &disrupt.PodStartDelayParameters{}
		return parseDuration(&fault.PodStartDelay.Delay, text)
	},
	disrupt.PodStartFail: func(fault *disrupt.Fault, text string) error {
		fault.PodStartFail = &disrupt.PodStartFailParameters{}
		return parsePercent(&fault.PodStartFail.Percent, text)
	},
	disrupt.DeviceFailure: func(fault *disrupt.Fault, text string) error {
		text, effect, _ := strings.Cut(text, ":")
		name, count, has := strings.Cut(text, "=")
		fault.DeviceFailure = &disrupt.DeviceFailureParameters{Name: name, Effect: resourcev1.DeviceTaintEffect(effect)}
		if !has {
			return nil
		}
		number, err := strconv.ParseInt(count, 10, 32)
		if err != nil || number < 1 {
			return fmt.Errorf("want a number of devices after =, got %q", count)
		}
		fault.DeviceFailure.Count = int32(number)
		return nil
	},
}

// parseFault reads TYPE or TYPE:PARAMETER.
func parseFault(text string) (disrupt.Fault, error) {
	kind, parameter, has := strings.Cut(text, ":")
	fault := disrupt.Fault{Type: disrupt.FaultType(kind)}
	if has {
		parse, may := faultParameters[fault.Type]
		if !may {
			return fault, fmt.Errorf("%s has no parameter", kind)
		}
		if err := parse(&fault, parameter); err != nil {
			return fault, err
		}
	}
	return fault, fault.Validate()
}

func parseDuration(into *metav1.Duration, text string) (err error) {
	into.Duration, err = time.ParseDuration(text)
	return err
}

func parsePercent(into *int32, text string) error {
	number, err := strconv.ParseInt(text, 10, 32)
	if err != nil || number < 1 || number > disrupt.DefaultPercent {
		return fmt.Errorf("want a percentage from 1 to 100, got %q", text)
	}
	*into = int32(number)
	return nil
}

// parseExpectation reads WHAT@DURATION.
func parseExpectation(text string) (v1alpha1.DisruptionExpectation, error) {
	var expectation v1alpha1.DisruptionExpectation
	at := strings.LastIndex(text, "@")
	if at < 0 {
		return expectation, errors.New("want WHAT@DURATION, such as evicted@5m")
	}
	within, err := time.ParseDuration(text[at+1:])
	if err != nil || within <= 0 {
		return expectation, fmt.Errorf("want a duration such as 5m after @, got %q", text[at+1:])
	}
	expectation.Within.Duration = within
	kind, value, _ := strings.Cut(text[:at], "=")
	first, second, _ := strings.Cut(value, ":")
	switch {
	case kind == "evicted" && value == "":
		expectation.Type = v1alpha1.ExpectPodsEvicted
	case kind == "replaced" && value == "":
		expectation.Type = v1alpha1.ExpectMachineReplaced
	case kind == "condition" && first != "":
		expectation.Type = v1alpha1.ExpectCondition
		expectation.Condition = &v1alpha1.ExpectedCondition{Type: first, Status: metav1.ConditionStatus(second)}
	case kind == "taint" && first != "":
		expectation.Type = v1alpha1.ExpectTaint
		expectation.Taint = &v1alpha1.ExpectedTaint{Key: first, Effect: second}
	default:
		return expectation, errors.New("want condition=TYPE:STATUS, taint=KEY:EFFECT, evicted or replaced before @")
	}
	return expectation, nil
}
