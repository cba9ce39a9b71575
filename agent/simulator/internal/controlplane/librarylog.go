package controlplane

import (
	"flag"
	"io"

	"k8s.io/klog/v2"
)

// logLibraries sends what the libraries in this process say, above all the
// podhost's, to the writer instead of the error output. It must be called
// before they say anything.
func logLibraries(writer io.Writer) {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{
		"logtostderr": "false",
		// Without it an error is written once for each lesser severity.
		"one_output": "true",
		// Errors would go to the error output as well.
		"stderrthreshold": "FATAL",
	} {
		// The names and values are right, so this can't fail.
		_ = flags.Set(name, value)
	}
	klog.SetOutput(writer)
}
