package podlife

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/logfile"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/process"
)

// The kubelet's bounds for a termination message that is taken from the log.
const (
	messageLines = 80
	messageBytes = 2048
)

// LogPath is the log file of one run of a container.
func LogPath(logDir string, pod *corev1.Pod, container string, attempt int32) string {
	return filepath.Join(PodLogDir(logDir, pod.UID), container, strconv.Itoa(int(attempt))+".log")
}

// PodLogDir holds all log files of a pod.
func PodLogDir(logDir string, uid types.UID) string { return filepath.Join(logDir, string(uid)) }

func removeLog(path string) {
	for _, file := range []string{path, logfile.Rotated(path)} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return
		}
	}
}

// terminated describes the end of a process.
func terminated(p process.Running, exit process.Exit, launch *launch) corev1.ContainerStateTerminated {
	state := corev1.ContainerStateTerminated{
		ExitCode:   int32(exit.Code),
		Signal:     int32(exit.Signal),
		Reason:     "Completed",
		StartedAt:  metav1.NewTime(p.StartedAt()).Rfc3339Copy(),
		FinishedAt: metav1.NewTime(exit.At).Rfc3339Copy(),
	}
	if exit.Code != 0 {
		state.Reason = "Error"
	}
	if exit.Code != 0 && launch.container.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError {
		if text, err := logfile.Tail(launch.logPath, messageLines, messageBytes); err == nil {
			state.Message = text
		}
	}
	return state
}

// boundedBuffer keeps the beginning of what is written to it.
type boundedBuffer struct {
	mu   sync.Mutex
	text []byte
}

const boundedBufferSize = 10 << 10

func (b *boundedBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, text[:min(len(text), boundedBufferSize-len(b.text))]...)
	return len(text), nil
}

func (b *boundedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}
