package plane

import (
	"context"
	"errors"
	"fmt"
	"sync"
	_ "unsafe" // For go:linkname.

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.uber.org/zap"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	_ "k8s.io/apiserver/pkg/storage/storagebackend/factory" // Sets newETCD3Client before this package reads it.
)

// newETCD3Client is the variable by which an API server makes clients of etcd, one with a connection of its own for each kind.
//
//go:linkname newETCD3Client k8s.io/apiserver/pkg/storage/storagebackend/factory.newETCD3Client
var newETCD3Client func(storagebackend.TransportConfig) (*kubernetes.Client, error)

// etcdConnections lets the clients that one API server makes use one connection.
type etcdConnections struct {
	dial  func(storagebackend.TransportConfig) (*kubernetes.Client, error)
	mutex sync.Mutex
	open  map[string]*etcdConnection
}

// etcdConnection is closed when its last client is.
type etcdConnection struct {
	// clients is guarded by the mutex of etcdConnections.
	clients int
	// dialing guards client, which has the connection.
	dialing sync.Mutex
	client  *kubernetes.Client
}

// shareEtcdConnections lets API servers that start from now on have one connection to etcd each.
func shareEtcdConnections() error {
	if newETCD3Client == nil {
		return errors.New("sharing connections to etcd: API servers make clients of etcd in another way")
	}
	connections := &etcdConnections{dial: newETCD3Client, open: map[string]*etcdConnection{}}
	newETCD3Client = connections.newClient
	return nil
}

// newClient returns a client with streams of its own for watches: progress is reported to all watches of a stream, and when all of them
// have caught up.
func (c *etcdConnections) newClient(transport storagebackend.TransportConfig) (*kubernetes.Client, error) {
	key := fmt.Sprintf("%s %v", ownLabel(), transport)
	connection := c.findConnection(key)
	shared, err := connection.findClient(c.dial, transport)
	if err != nil {
		c.dropClient(key, connection)
		return nil, err
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: transport.ServerList, Logger: zap.NewNop()})
	if err != nil {
		c.dropClient(key, connection)
		return nil, fmt.Errorf("making a client of etcd: %w", err)
	}
	// Its own connection, which was not used, has goroutines.
	client.ActiveConnection().Close()
	client.Cluster, client.Auth, client.Maintenance = shared.Cluster, shared.Auth, shared.Maintenance
	client.KV, client.Lease, client.Watcher = clientv3.NewKV(shared.Client), clientv3.NewLease(shared.Client), clientv3.NewWatcher(shared.Client)
	context.AfterFunc(client.Ctx(), func() { c.dropClient(key, connection) })
	result := &kubernetes.Client{Client: client}
	result.Kubernetes = result
	return result, nil
}

func (c *etcdConnections) findConnection(key string) *etcdConnection {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	connection, ok := c.open[key]
	if !ok {
		connection = &etcdConnection{}
		c.open[key] = connection
	}
	connection.clients++
	return connection
}

// dropClient closes the connection if the client was the last one.
func (c *etcdConnections) dropClient(key string, connection *etcdConnection) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	connection.clients--
	if connection.clients > 0 {
		return
	}
	delete(c.open, key)
	if connection.client != nil {
		connection.client.Close()
	}
}

func (c *etcdConnection) findClient(dial func(storagebackend.TransportConfig) (*kubernetes.Client, error), transport storagebackend.TransportConfig) (*kubernetes.Client, error) {
	c.dialing.Lock()
	defer c.dialing.Unlock()
	if c.client != nil {
		return c.client, nil
	}
	client, err := dial(transport)
	if err == nil {
		c.client = client
	}
	return client, err
}
