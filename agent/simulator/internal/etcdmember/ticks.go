package etcdmember

import (
	"errors"
	"reflect"
	"time"

	"go.etcd.io/etcd/server/v3/etcdserver"
)

// restingTick is the time between two ticks of raft once the member leads. Ticks are for elections, and a single member has
// none to lose; at etcd's own ten a second they are a tenth of what wakes the control planes of a process at rest.
const restingTick = time.Second

// restTicks lets raft tick at its own pace until the member serves, which it does as the leader, and then seldom.
func restTicks(server *etcdserver.EtcdServer) error {
	field := reflect.ValueOf(server).Elem().FieldByName("r").FieldByName("ticker")
	if !field.IsValid() || field.Type() != reflect.TypeFor[*time.Ticker]() {
		return errors.New("slowing the ticks of raft: etcd keeps its ticker in another way")
	}
	ticker := (*time.Ticker)(field.UnsafePointer())
	go func() {
		select {
		case <-server.ReadyNotify():
			ticker.Reset(restingTick)
		case <-server.StopNotify():
		}
	}()
	return nil
}
