// Package measurement measures what the load of one run does to its cluster. A Meter has the parts:
//
//	measurement          from                          until                           type, file
//	PodScheduled, Pod…   the answer to the creation¹   the watch shows the stage       PodTracker, pods.go
//	PodReadyByObject     metadata.creationTimestamp    the Ready condition's time      PodTracker, pods.go
//	NodeReady            the watch shows it not Ready  the watch shows it Ready        NodeTracker, nodes.go
//	DeploymentRollout    the answer to the creation    the watch shows it ready        Book, book.go
//	APIRequest, …Failed  the request was due           its answer                      Recorder, recorder.go
//	APIRequestWait       the request was due           a slot was free for it          Recorder, recorder.go
//	APIServerRequest     the API server's own histogram, after less before             ServerCounts, apiserver.go
//
//	¹ Pods that a controller makes: the watch shows them first. Of a watch that is behind, their creationTimestamp (offset.go).
//
// What has not ended when the steps are over, or when its object is deleted, counts as Unfinished with the time that it waited so far; also
// pods that an object asks for and that were never created (lacking.go). Why pods were never Ready is in unready.go.
//
// These make the times of a run invalid, and the run with them; the first two by WatchHealth, the others by what loadtest observes of itself:
//
//	a watch that is interrupted, or shows events late  PodScheduled … PodReady, NodeReady, DeploymentRollout
//	a watch that lists again                           the same: what happened in between has the time of the list
//	requests that are made after their time            APIRequest, unless they waited for earlier ones
//	an agent that stands still                         all but APIServerRequest and PodReadyByObject
//	hollow nodes that do not keep up                   Pod…, NodeReady
package measurement
