package etcdmember

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Claim: A failed etcd holds up no successor. Broken: its locks kept.
func TestTheFilesOfAFailedMemberAreReleased(t *testing.T) {
	dir, err := os.MkdirTemp("", "etcd") //nolint:usetesting // The test's own directory has too long a name for a socket.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	t.Chdir(dir)
	args := []string{"--data-dir=" + filepath.Join(dir, "data"), "--socket-dir=" + dir, "--log-level=error", "--unsafe-no-fsync=true"}
	if _, err := Start(args, io.Discard, func(string) { runtime.Goexit() }); err != nil {
		t.Fatal(err)
	}
	put := func(key string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + filepath.Join(dir, clientSocket)}})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		_, err = client.Put(ctx, key, "x")
		return err
	}
	if err := put("kept"); err != nil {
		t.Fatal(err)
	}
	if err := ReleaseFiles(args); err != nil {
		t.Fatal(err)
	}
	if err := put("lost"); err == nil {
		t.Error("a member without its files takes writes")
	}
	started := make(chan *Member, 1)
	go func() {
		member, err := Start(args, io.Discard, nil)
		if err != nil {
			t.Error(err)
		}
		started <- member
	}()
	select {
	case member := <-started:
		if member != nil {
			member.Close()
		}
	case <-time.After(patience):
		t.Error("the next member waits")
	}
}
