// The comparison of a cache with what an API server lists is pure: both come from the caller.
//
// Resource versions are compared as numbers, and only those of one kind with each other: Kubernetes promises that
// from 1.35 on, and every API server that keeps its objects in etcd did so before. Versions that are no numbers are
// compared for being the same, which holds a thaw up longer than needed and never lets one through too early.

package relist

import "k8s.io/apimachinery/pkg/util/resourceversion"

// Listing is what an API server has of one kind.
type Listing struct {
	// Version is that of the whole list.
	Version string
	// Objects are the versions of the objects, by key.
	Objects map[string]string
}

// Cache looks an object up in a cache by its key.
type Cache func(key string) (version string, there bool)

// Demand is what a cache has to show before the agent acts on it: what was listed, or what came after. The whole of
// it has to hold at one moment: a cache that is catching up shows for a while what was gone at the time of the list.
type Demand struct {
	// version is that of the first list. objects have the oldest version that the cache may show of each; gone has
	// the newest one that it must not show any more, of those that went after the first list.
	version       string
	objects, gone map[string]string
}

// DemandOf returns what the first list asks for.
func DemandOf(listed Listing) *Demand {
	return &Demand{version: listed.Version, objects: listed.Objects, gone: map[string]string{}}
}

// Relax holds the demand against a later list: an object that is gone meanwhile need not show up any more. What is new
// in it is not asked for, so that a world which keeps changing is caught up with all the same.
func (d *Demand) Relax(later Listing) {
	for key := range d.objects {
		if _, there := later.Objects[key]; !there {
			delete(d.objects, key)
			d.gone[key] = later.Version
		}
	}
	for key := range d.gone {
		version, there := later.Objects[key]
		if d.gone[key] = later.Version; there {
			delete(d.gone, key)
			d.objects[key] = version
		}
	}
}

// Behind returns in how many objects a cache is behind now. keys are those of the objects in it.
func (d *Demand) Behind(keys []string, cached Cache) int {
	behind := 0
	for key, version := range d.objects {
		if shown, there := cached(key); !there || isOlder(shown, version) {
			behind++
		}
	}
	for _, key := range keys {
		if _, listed := d.objects[key]; listed {
			continue
		}
		limit, went := d.gone[key]
		if !went {
			limit = d.version
		}
		if shown, there := cached(key); there && !isNewer(shown, limit) {
			behind++
		}
	}
	return behind
}

// WentBack reports whether a list is older than what a cache had seen before the list was made. That cannot be: the
// API server was given an older state, and its watches tell nothing until it has come as far again.
func WentBack(listed Listing, seen string) bool { return isNewer(seen, listed.Version) }

func isOlder(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	if err != nil {
		return a != b
	}
	return order < 0
}

func isNewer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}
