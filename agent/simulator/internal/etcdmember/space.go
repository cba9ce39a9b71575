package etcdmember

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/storage"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.uber.org/zap"
)

const (
	// maintenancePeriod is the time between two looks at the size of the database.
	maintenancePeriod = 30 * time.Second
	// maintenanceTimeout bounds one request to the member itself.
	maintenanceTimeout = 30 * time.Second
	// defragFrom is the size from which a database of which less than half is in use is defragmented.
	defragFrom = 256 << 20
	// reservePercent of the quota must be free before writes are allowed again.
	reservePercent = 10
)

// maintainDatabase keeps the database's file small and finds the way out of a full database until done is closed.
// The API server compacts the history of its objects every five minutes, but nothing gives the file's free
// pages back, and nothing but an operator lets a member write again that was full once.
func maintainDatabase(server *etcdserver.EtcdServer, logger *zap.Logger, done <-chan struct{}) {
	select {
	case <-server.ReadyNotify():
	case <-done:
		return
	}
	ticker := time.NewTicker(maintenancePeriod)
	defer ticker.Stop()
	for {
		if err := makeSpace(server, logger); err != nil {
			logger.Error("Making space in the database failed, will retry", zap.Error(err))
		}
		select {
		case <-ticker.C:
		case <-done:
			return
		}
	}
}

// makeSpace defragments a database that is worth it. In one that was full it drops the history first, and
// allows writes again if enough of the quota is free then.
func makeSpace(server *etcdserver.EtcdServer, logger *zap.Logger) error {
	ctx, cancel := context.WithTimeout(context.Background(), maintenanceTimeout)
	defer cancel()
	full := isFull(server)
	if full {
		// The API server cannot: compacting writes.
		request := &pb.CompactionRequest{Revision: server.KV().Rev(), Physical: true}
		if _, err := server.Compact(ctx, request); err != nil && !errors.Is(err, mvcc.ErrCompacted) {
			return err
		}
	}
	backend := server.Backend()
	if size := backend.Size(); full || size >= defragFrom && backend.SizeInUse() < size/2 {
		if err := backend.Defrag(); err != nil {
			return err
		}
	}
	if !full {
		return nil
	}
	quota := server.Cfg.QuotaBackendBytes
	if quota <= 0 {
		quota = storage.DefaultQuotaBytes
	}
	size := server.Backend().Size()
	if size > quota/100*(100-reservePercent) {
		logger.Error("The database is full, and only deletions are allowed: delete objects, "+
			"or start the cluster with a larger quota (simcluster start --etcd-arg quota-backend-bytes=BYTES)",
			zap.Int64("size", size), zap.Int64("quota", quota))
		return nil
	}
	_, err := server.Alarm(ctx, &pb.AlarmRequest{
		MemberID: uint64(server.MemberID()), Action: pb.AlarmRequest_DEACTIVATE, Alarm: pb.AlarmType_NOSPACE,
	})
	if err == nil {
		logger.Warn("The database was full and has space again: writes are allowed", zap.Int64("size", size), zap.Int64("quota", quota))
	}
	return err
}

// isFull reports whether the member refuses writes because its database is full.
func isFull(server *etcdserver.EtcdServer) bool {
	for _, alarm := range server.Alarms() {
		if alarm.Alarm == pb.AlarmType_NOSPACE {
			return true
		}
	}
	return false
}
