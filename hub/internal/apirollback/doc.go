// Package apirollback notices that the hub's API server has gone back to an older state, such as that of a backup.
//
// A cache would not: its watch asks for what comes after the newest that it has seen, and hears nothing until the API
// server has come as far again. The objects that are missing since stay in it, and those that are there again do not
// come. So the hub holds the newest version that its cache has seen against a list that the API server makes now. A
// list without a resource version is read from etcd, or from a cache that has first caught up with what etcd had when
// it was asked for; it cannot be behind what any watch has told before, however far the one API server that answers
// lags. An older list is older data. It is looked at twice all the same, so that no single answer ends a hub.
//
// What the hub has in memory beside its caches is as wrong as they are: the process ends, and the supervisor that keeps
// it running starts it again. After a start a hub acts only for agents that it has heard itself. A hub that waits to be
// elected looks too, because it would begin with the same old caches.
//
// Every kind goes back together, so one is looked at: Machines, of which at most one is read. That is one request a
// minute, and a few more after a request that has broken off. What has been seen may be as old: the cache of a quiet kind
// hears of the API server's version once a minute. So a backup of a minute ago is not noticed, nor is one with so few
// writes since that the restored API server has as many by the second look.
//
// An API server that runs on while its etcd is put back serves its own old cache, also to lists. It has to be started
// again in any case, as Kubernetes demands; from then on this package sees what has happened.
package apirollback
