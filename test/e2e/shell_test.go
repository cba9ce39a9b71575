package e2e

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// The shell has make of the repository, and the programs of HOLLOWFLEET_E2E_PATH: helm, kubectl and kubectl-hollow.
const prelude = `set -euo pipefail
make() { command make --no-print-directory -C "$REPOSITORY" "$@"; }
`

func shellIn(ctx context.Context, kubeconfig, script string) string {
	GinkgoHelper()
	repository, err := filepath.Abs(root)
	Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(script) {
		GinkgoWriter.Print("$ ", line)
	}
	command := exec.CommandContext(ctx, "bash", "-c", prelude+script)
	command.Dir = work
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "MAKE") && !strings.HasPrefix(variable, "MFLAGS") {
			command.Env = append(command.Env, variable)
		}
	}
	command.Env = append(command.Env, "KUBECONFIG="+kubeconfig, "REPOSITORY="+repository,
		"PATH="+os.Getenv("HOLLOWFLEET_E2E_PATH")+":"+os.Getenv("PATH"))
	var mutex sync.Mutex
	var printed bytes.Buffer
	both := io.MultiWriter(&printed, GinkgoWriter)
	command.Stdout = &locked{mutex: &mutex, to: both}
	command.Stderr = &locked{mutex: &mutex, to: both}
	err = command.Run()
	mutex.Lock()
	defer mutex.Unlock()
	Expect(err).NotTo(HaveOccurred(), "these commands:\n%s\nprinted:\n%s", script, printed.String())
	return printed.String()
}

// locked lets both outputs of a command go to one writer.
type locked struct {
	mutex *sync.Mutex
	to    io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.to.Write(p)
}
