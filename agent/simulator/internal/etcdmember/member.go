// Package etcdmember runs an etcd member that is alone in its cluster.
package etcdmember

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os/signal"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/logutil"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"
)

const (
	// clientSocket is made in the socket directory.
	clientSocket = "etcd.sock"
	// peerSocket is what the stored membership says. The only member has no peers, so nothing listens there.
	peerSocket = "etcd-peer.sock"
	// walSegmentBytes is preallocated twice by each member. etcd's own 64 MB
	// would cost dozens of small clusters gigabytes of disk.
	walSegmentBytes = 8 << 20
)

// readBytes buffers what a connection sends. An API server has one connection for each kind, and grpc's own 32 KiB cost each cluster
// two megabytes.
const readBytes = 2 << 10

func init() { wal.SegmentSizeBytes = walSegmentBytes }

// Member is a running member.
type Member struct {
	etcd *embed.Etcd
	done chan struct{}
}

// Run runs the member as this process, until SIGTERM or SIGINT.
func Run(args []string, log io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	member, err := Start(args, log, nil)
	if err != nil {
		return err
	}
	defer member.Close()
	return member.Wait(ctx)
}

// Start starts the member. The arguments are etcd's own flags and --socket-dir. The member serves on a unix socket only: a
// user who can enter the socket directory may use it. A member that cannot continue, because the disk is full for instance, calls exit, which
// must not return; with nil it exits the process.
func Start(args []string, log io.Writer, exit func(reason string)) (*Member, error) {
	config, err := readFlags(args)
	if err != nil {
		return nil, err
	}
	// Each member logs to its own log, so the one that is built from --log-outputs is not used.
	level := zap.NewAtomicLevelAt(logutil.ConvertToZapLevel(config.LogLevel))
	core := zapcore.NewCore(zapcore.NewJSONEncoder(logutil.DefaultZapLoggerConfig.EncoderConfig), zapcore.Lock(zapcore.AddSync(log)), level)
	options := []zap.Option{zap.AddCaller()}
	if exit != nil {
		options = append(options, zap.WithFatalHook(exitHook(exit)), zap.WithPanicHook(exitHook(exit)))
	}
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.New(core, options...))
	etcd, err := embed.StartEtcd(config)
	if err != nil {
		return nil, fmt.Errorf("starting the member: %w", err)
	}
	member := &Member{etcd: etcd, done: make(chan struct{})}
	go maintainDatabase(etcd.Server, config.GetLogger(), member.done)
	if err := restTicks(etcd.Server); err != nil {
		member.Close()
		return nil, err
	}
	return member, nil
}

// exitHook replaces the end of the process after a last message.
type exitHook func(reason string)

// OnWrite is called after the message.
func (h exitHook) OnWrite(entry *zapcore.CheckedEntry, _ []zapcore.Field) { h(entry.Message) }

// Ready is closed when the member serves.
func (m *Member) Ready() <-chan struct{} { return m.etcd.Server.ReadyNotify() }

// IsReady reports whether the member serves.
func (m *Member) IsReady() bool {
	select {
	case <-m.Ready():
		return true
	default:
		return false
	}
}

// URL is where the member listens.
func (m *Member) URL() string { return m.etcd.Config().ListenClientUrls[0].String() }

// Services are what a member does for clients in its process, which need no connection.
type Services struct {
	pb.KVServer
	pb.LeaseServer
	pb.WatchServer
}

// Services returns what the member does once it is ready.
func (m *Member) Services() Services {
	server := m.etcd.Server
	return Services{KVServer: v3rpc.NewQuotaKVServer(server), LeaseServer: v3rpc.NewQuotaLeaseServer(server), WatchServer: v3rpc.NewWatchServer(server)}
}

// Wait returns nil when the context has ended, and an error when the member has.
func (m *Member) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-m.etcd.Server.StopNotify():
		return errors.New("the member stopped by itself")
	case err := <-m.etcd.Err():
		return fmt.Errorf("serving: %w", err)
	}
}

// Close ends the member.
func (m *Member) Close() {
	close(m.done)
	m.etcd.Close()
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
	config.ListenPeerUrls = nil
	config.AdvertisePeerUrls = types.URLs{{Scheme: "unix", Host: peerSocket}}
	config.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.ReadBufferSize(readBytes)}
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
