// Package etcdmember runs an etcd member that is alone in its cluster.
package etcdmember

import (
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

const (
	// clientSocket and peerSocket are made in the socket directory.
	clientSocket = "etcd.sock"
	peerSocket   = "etcd-peer.sock"
	// walSegmentBytes is preallocated twice by each member. etcd's own 64 MB
	// would cost dozens of small clusters gigabytes of disk.
	walSegmentBytes = 8 << 20
)

// Run runs the member until SIGTERM or SIGINT. The arguments are etcd's own
// flags and --socket-dir. The member serves on unix sockets only: a user who can
// enter the socket directory may use it.
func Run(args []string) error {
	config, err := readFlags(args)
	if err != nil {
		return err
	}
	wal.SegmentSizeBytes = walSegmentBytes
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	member, err := embed.StartEtcd(config)
	if err != nil {
		return fmt.Errorf("starting the member: %w", err)
	}
	defer member.Close()
	done := make(chan struct{})
	defer close(done)
	go maintainDatabase(member.Server, config.GetLogger(), done)
	select {
	case <-stop:
		return nil
	case <-member.Server.StopNotify():
		return errors.New("the member stopped by itself")
	case err := <-member.Err():
		return fmt.Errorf("serving: %w", err)
	}
}

// readFlags reads the flags.
func readFlags(args []string) (*embed.Config, error) {
	config := embed.NewConfig()
	flags := flag.NewFlagSet("etcd", flag.ContinueOnError)
	config.AddFlags(flags)
	socketDir := flags.String("socket-dir", "", "The directory for the member's unix sockets.")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if *socketDir == "" || config.Dir == "" {
		return nil, errors.New("--socket-dir and --data-dir are needed")
	}
	if err := refuseUnreadFlags(flags); err != nil {
		return nil, err
	}
	config.LogOutputs = []string{embed.StdErrLogOutput}
	client := url.URL{Scheme: "unix", Path: filepath.Join(*socketDir, clientSocket)}
	config.ListenClientUrls = types.URLs{client}
	config.AdvertiseClientUrls = types.URLs{client}
	// etcd takes a peer socket's name from the URL's host part, so the name is
	// relative, and the supervisor starts etcd in the socket directory. It is
	// also part of the stored membership and may not change with the directory.
	peer := url.URL{Scheme: "unix", Host: peerSocket}
	config.ListenPeerUrls = types.URLs{peer}
	config.AdvertisePeerUrls = types.URLs{peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	return config, nil
}

// refuseUnreadFlags refuses flags that the library registers but leaves to
// etcd's own program to read: setting them here would silently do nothing.
func refuseUnreadFlags(flags *flag.FlagSet) error {
	var refused []string
	flags.Visit(func(f *flag.Flag) {
		valueType := reflect.TypeOf(f.Value)
		if valueType.Kind() == reflect.Pointer {
			valueType = valueType.Elem()
		}
		if valueType.PkgPath() != "flag" && f.Name != embed.ServerFeatureGateFlagName {
			refused = append(refused, "--"+f.Name)
		}
	})
	if len(refused) > 0 {
		return fmt.Errorf("these etcd flags can't be set here: %s", strings.Join(refused, ", "))
	}
	return nil
}
