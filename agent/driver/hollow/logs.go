package hollow

import (
	"context"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// mostLogRead bounds what is read of a log for its end: lines may be long.
const mostLogRead = 8 << 20

// LogQuery says how much of a log is wanted.
type LogQuery struct {
	// Lines from the end, of which the last Bytes are kept.
	Lines int64
	Bytes int
	// SinceSeconds leaves out what is older; 0 leaves out nothing.
	SinceSeconds int64
	// Previous asks for the run of the container before the current one.
	Previous bool
}

// LogTail is the end of a log.
type LogTail struct {
	// Pod is whose log it is, as namespace/name.
	Pod  string
	Text string
	// Truncated: there was no room for the first of the lines.
	Truncated bool
}

// Logs reads the logs of hollow nodes, which those of their pods are.
type Logs struct {
	// Reader reads pods from the API server of the host.
	Reader client.Reader
	// Client reads their logs, by the kubelet of their Node.
	Client kubernetes.Interface
	// Namespace is that of the pods, Cluster the one whose agent this is.
	Namespace, Cluster string
}

// ReadTail reads the end of the log of a Machine's node. A Machine without a pod is a *driver.NotFoundError. A pod of its name that is not
// this cluster's is none of it: whoever names a Machine must not choose a pod by that.
func (l Logs) ReadTail(ctx context.Context, machine string, query LogQuery) (LogTail, error) {
	pod := &corev1.Pod{}
	err := l.Reader.Get(ctx, client.ObjectKey{Namespace: l.Namespace, Name: machine}, pod)
	switch {
	case apierrors.IsNotFound(err), err == nil && !l.isOwn(pod, machine):
		return LogTail{}, &driver.NotFoundError{Machine: machine, ProviderID: ProviderID(l.Cluster, machine)}
	case err != nil:
		return LogTail{}, fmt.Errorf("getting pod %s/%s: %w", l.Namespace, machine, err)
	}
	options := &corev1.PodLogOptions{
		Container: containerName, TailLines: &query.Lines, Previous: query.Previous, LimitBytes: ptr.To(int64(mostLogRead)),
	}
	if query.SinceSeconds > 0 {
		options.SinceSeconds = &query.SinceSeconds
	}
	stream, err := l.Client.CoreV1().Pods(l.Namespace).GetLogs(pod.Name, options).Stream(ctx)
	if err != nil {
		return LogTail{}, fmt.Errorf("reading the log of pod %s/%s: %w", l.Namespace, machine, err)
	}
	defer stream.Close()
	tail := LogTail{Pod: l.Namespace + "/" + pod.Name}
	if tail.Text, tail.Truncated, err = readEnd(stream, query.Bytes); err != nil {
		return LogTail{}, fmt.Errorf("reading the log of pod %s/%s: %w", l.Namespace, machine, err)
	}
	return tail, nil
}

// isOwn reports whether a pod was made by this cluster's agent for that Machine.
func (l Logs) isOwn(pod *corev1.Pod, machine string) bool {
	return pod.Labels[v1alpha1.ClusterNameLabel] == l.Cluster && pod.Labels[v1alpha1.MachineNameLabel] == machine
}

// readEnd reads all of a stream and returns its last bytes, as many as most says.
func readEnd(stream io.Reader, most int) (text string, truncated bool, err error) {
	var kept []byte
	chunk := make([]byte, 32<<10)
	for {
		n, err := stream.Read(chunk)
		kept = append(kept, chunk[:n]...)
		if len(kept) > 2*most {
			kept, truncated = append([]byte(nil), kept[len(kept)-most:]...), true
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", false, err
		}
	}
	if len(kept) > most {
		kept, truncated = kept[len(kept)-most:], true
	}
	return string(kept), truncated, nil
}
