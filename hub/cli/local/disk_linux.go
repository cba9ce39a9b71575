package local

import (
	"fmt"
	"syscall"
)

// leastFree and leastPercent are what a file system needs to have free, in bytes or in parts of 100: one that has less of both is full
// for a fleet. etcd, the logs and the agents' credentials are on it.
const (
	leastFree    = 1 << 30
	leastPercent = 5
)

// checkDisk is the error of a fleet on a file system that is full.
func checkDisk(dir string) error {
	var found syscall.Statfs_t
	if err := syscall.Statfs(dir, &found); err != nil {
		return nil //nolint:nilerr // What is not known is no problem.
	}
	return refuseFullDisk(dir, &found)
}

func refuseFullDisk(dir string, found *syscall.Statfs_t) error {
	free, size := found.Bavail*uint64(found.Bsize), found.Blocks*uint64(found.Bsize)
	var what string
	switch {
	case size > 0 && free < leastFree && free*100 < size*leastPercent:
		what = fmt.Sprintf("%d of %d MiB are free", free>>20, size>>20)
	case found.Files > 0 && found.Ffree*100 < found.Files:
		what = fmt.Sprintf("%d of %d inodes are free", found.Ffree, found.Files)
	default:
		return nil
	}
	return fmt.Errorf("the file system of %s is full: %s. API servers then refuse writes, so Machines do not change, while running ones still look healthy: "+
		"free some space; if a process has ended in the meantime, restart the fleet", dir, what)
}
