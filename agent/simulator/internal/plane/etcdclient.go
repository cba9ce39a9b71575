package plane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	_ "unsafe" // For go:linkname.

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.etcd.io/etcd/server/v3/proxy/grpcproxy/adapter"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	_ "k8s.io/apiserver/pkg/storage/storagebackend/factory" // Sets newETCD3Client before this package reads it.

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/etcdmember"
)

// memberPatience is how long a request waits for a member that is starting, as long as a client with a connection tries again.
const memberPatience = 2 * time.Second

// newETCD3Client is the variable by which an API server makes clients of etcd, one with a connection of its own for each kind.
//
//go:linkname newETCD3Client k8s.io/apiserver/pkg/storage/storagebackend/factory.newETCD3Client
var newETCD3Client func(storagebackend.TransportConfig) (*kubernetes.Client, error)

// members are the etcd members of this process.
var members = &memberList{offered: map[string]*offeredMember{}, changed: make(chan struct{})}

// memberList is where API servers find their member, which may end and start again while they run.
type memberList struct {
	mutex sync.Mutex
	// offered are the members that serve, by the URL at which they listen.
	offered map[string]*offeredMember
	// changed is closed when another one is offered.
	changed chan struct{}
}

// offeredMember is a member that serves until its context ends.
type offeredMember struct {
	etcdmember.Services
	ctx context.Context //nolint:containedctx // It is how long the member serves.
}

// offerMember lets clients find the member as soon as it serves, until the context ends.
func (l *memberList) offerMember(ctx context.Context, member *etcdmember.Member) {
	select {
	case <-member.Ready():
	case <-ctx.Done():
		return
	}
	offered := &offeredMember{Services: member.Services(), ctx: ctx}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.offered[member.URL()] = offered
	close(l.changed)
	l.changed = make(chan struct{})
	context.AfterFunc(ctx, func() { l.withdrawMember(member.URL(), offered) })
}

func (l *memberList) withdrawMember(url string, offered *offeredMember) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.offered[url] == offered {
		delete(l.offered, url)
	}
}

// findMember waits a moment for a member that is starting.
func (l *memberList) findMember(ctx context.Context, url string) (*offeredMember, error) {
	ctx, cancel := context.WithTimeout(ctx, memberPatience)
	defer cancel()
	for {
		l.mutex.Lock()
		member, changed := l.offered[url], l.changed
		l.mutex.Unlock()
		if member != nil {
			return member, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, errNoMember
		}
	}
}

// errNoMember is what a client with a connection gets while nothing listens.
var errNoMember = status.Error(codes.Unavailable, "the etcd member of this control plane is not running")

// callMembersDirectly lets API servers that start from now on call the etcd member in their process without a connection: a twelfth of what
// a plane with nodes costs was spent on messages to itself.
func callMembersDirectly() error {
	if newETCD3Client == nil {
		return errors.New("calling etcd without a connection: API servers make clients of etcd in another way")
	}
	connect := newETCD3Client
	newETCD3Client = func(transport storagebackend.TransportConfig) (*kubernetes.Client, error) {
		// Only the member in this process listens on a socket of the file system. The flag etcd-servers may name another way there.
		if len(transport.ServerList) != 1 || !strings.HasPrefix(transport.ServerList[0], "unix://") {
			return connect(transport)
		}
		return newDirectClient(transport)
	}
	return nil
}

// newDirectClient returns a client of its own for each kind: progress is reported to all watches of a client, and when all of them have
// caught up. It knows where the member listens, because an API server asks there what etcd can do, and compacts the history only if it knows.
func newDirectClient(transport storagebackend.TransportConfig) (*kubernetes.Client, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: transport.ServerList, Logger: zap.NewNop()})
	if err != nil {
		return nil, fmt.Errorf("making a client of etcd: %w", err)
	}
	// Its connection, which was not used, has goroutines.
	client.ActiveConnection().Close()
	server := &directServer{url: transport.ServerList[0]}
	client.KV = clientv3.NewKVFromKVClient(adapter.KvServerToKvClient(server), client)
	client.Lease = clientv3.NewLeaseFromLeaseClient(adapter.LeaseServerToLeaseClient(server), client, time.Second)
	client.Watcher = clientv3.NewWatchFromWatchClient(adapter.WatchServerToWatchClient(server), client)
	result := &kubernetes.Client{Client: client}
	result.Kubernetes = result
	return result, nil
}

// directServer passes requests on to the member with the URL that runs then. What a member that ends does not answer fails as if its
// connection had ended.
type directServer struct {
	pb.UnimplementedKVServer
	pb.UnimplementedLeaseServer
	pb.UnimplementedWatchServer
	url string
}

func ask[Request, Answer any](ctx context.Context, s *directServer, request Request, call func(*offeredMember, context.Context, Request) (Answer, error)) (Answer, error) {
	var none Answer
	member, err := members.findMember(ctx, s.url)
	if err != nil {
		return none, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(member.ctx, cancel)()
	answer, err := call(member, ctx, request)
	if err != nil && member.ctx.Err() != nil {
		return none, errNoMember
	}
	return answer, err
}

func (s *directServer) Range(ctx context.Context, request *pb.RangeRequest) (*pb.RangeResponse, error) {
	return ask(ctx, s, request, (*offeredMember).Range)
}

func (s *directServer) Put(ctx context.Context, request *pb.PutRequest) (*pb.PutResponse, error) {
	return ask(ctx, s, request, (*offeredMember).Put)
}

func (s *directServer) DeleteRange(ctx context.Context, request *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	return ask(ctx, s, request, (*offeredMember).DeleteRange)
}

func (s *directServer) Txn(ctx context.Context, request *pb.TxnRequest) (*pb.TxnResponse, error) {
	return ask(ctx, s, request, (*offeredMember).Txn)
}

func (s *directServer) Compact(ctx context.Context, request *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	return ask(ctx, s, request, (*offeredMember).Compact)
}

func (s *directServer) LeaseGrant(ctx context.Context, request *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	return ask(ctx, s, request, (*offeredMember).LeaseGrant)
}

func (s *directServer) LeaseRevoke(ctx context.Context, request *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	return ask(ctx, s, request, (*offeredMember).LeaseRevoke)
}

func (s *directServer) LeaseTimeToLive(ctx context.Context, request *pb.LeaseTimeToLiveRequest) (*pb.LeaseTimeToLiveResponse, error) {
	return ask(ctx, s, request, (*offeredMember).LeaseTimeToLive)
}

func (s *directServer) LeaseLeases(ctx context.Context, request *pb.LeaseLeasesRequest) (*pb.LeaseLeasesResponse, error) {
	return ask(ctx, s, request, (*offeredMember).LeaseLeases)
}

// Watch ends with the member. The client then watches again.
func (s *directServer) Watch(stream pb.Watch_WatchServer) error {
	_, err := ask(stream.Context(), s, stream, func(member *offeredMember, ctx context.Context, stream pb.Watch_WatchServer) (struct{}, error) {
		return struct{}{}, member.Watch(watchUntil{stream, ctx})
	})
	return err
}

// watchUntil is a stream that ends with the context.
type watchUntil struct {
	pb.Watch_WatchServer
	ctx context.Context //nolint:containedctx // A stream has one.
}

func (w watchUntil) Context() context.Context { return w.ctx }
