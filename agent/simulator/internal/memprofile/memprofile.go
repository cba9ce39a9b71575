// Package memprofile turns the memory profiler off in a program that imports it and serves no profiles: the profiler's tables are more
// than a megabyte in each process.
//
// Packages are initialised in the order of their paths as far as imports allow, and this one comes before those of Kubernetes.
package memprofile

import "runtime"

func init() { runtime.MemProfileRate = 0 }
