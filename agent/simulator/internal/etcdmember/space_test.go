package etcdmember

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

const patience = 2 * time.Minute

// startMember starts a member with a small quota in a directory whose name is short enough for sockets.
func startMember(t *testing.T) (*embed.Etcd, *clientv3.Client) {
	t.Helper()
	dir, err := os.MkdirTemp("", "etcd") //nolint:usetesting // The test's own directory has too long a name for a socket.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	t.Chdir(dir)
	config, err := readFlags([]string{
		"--data-dir=" + filepath.Join(dir, "data"), "--socket-dir=" + dir, "--log-level=error",
		"--unsafe-no-fsync=true", "--quota-backend-bytes=8388608",
	})
	if err != nil {
		t.Fatal(err)
	}
	member, err := embed.StartEtcd(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(member.Close)
	select {
	case <-member.Server.ReadyNotify():
	case <-time.After(patience):
		t.Fatal("the member is not ready")
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + filepath.Join(dir, clientSocket)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return member, client
}

// makeSpaceIn makes space and reports whether writes are allowed then.
func makeSpaceIn(t *testing.T, member *embed.Etcd) bool {
	t.Helper()
	if err := makeSpace(member.Server, zap.NewNop()); err != nil {
		t.Fatal(err)
	}
	return !isFull(member.Server)
}

// Edge case: A full etcd refused writes forever.
func TestAFullDatabaseTakesWritesAgainAfterDeletions(t *testing.T) {
	member, client := startMember(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	value := strings.Repeat("x", 64<<10)
	written := 0
	fill := func() {
		for err := error(nil); err == nil; written++ {
			if _, err = client.Put(ctx, fmt.Sprintf("/registry/%d", written), value); err != nil && !errors.Is(err, rpctypes.ErrNoSpace) {
				t.Fatalf("filling the database: %v", err)
			}
		}
	}
	// Etcd calls a database full when its file is large, however much of that is free.
	for fill(); !isFull(member.Server) || makeSpaceIn(t, member); fill() {
		if written > 1000 {
			t.Fatal("writes are always allowed, although nothing is ever deleted")
		}
	}
	if _, err := client.Delete(ctx, "/registry/", clientv3.WithPrefix()); err != nil {
		t.Fatalf("deleting from a full database: %v", err)
	}
	if _, err := client.Put(ctx, "/registry/new", value); !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatalf("etcd has found the way out by itself (%v): makeSpace can go", err)
	}
	if !makeSpaceIn(t, member) {
		t.Error("writes are refused although everything was deleted")
	}
	if _, err := client.Put(ctx, "/registry/new", value); err != nil {
		t.Errorf("writing after the deletions: %v", err)
	}
}
