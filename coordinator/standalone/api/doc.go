// Package api answers clients (SchedulerService): it decodes and checks their objects,
// writes them through the store under the leader's fence, streams changes, and asks the
// scheduling loop for what only that knows.
//
//	client ──gRPC──> Server ──> store ──> etcd        Apply, Delete, ListObjects, Watch
//	                   └──────> Scheduler             Explain, ExplainNode, GetSummary, ListWorkers, ListShards, ListDevices,
//	                                                  ListPending, ListPodGroups, ExplainPodGroup, ListDecisions, GetNodeMap, ListMapNodes,
//	                                                  GetFragmentation, ListPlugins, GetConfiguration
//
// A Server leads or follows, as its owner says:
//
//	following (a leader, or nobody) <──SetFollowing / SetLeading──> leading (store, fence, scheduler)
//
// A follower refuses every call but GetLeader with FAILED_PRECONDITION and a NotLeader detail
// that names the leader. So does a leader whose lease has run out, before anybody tells it. When
// it ceases to lead, its watches end the same way, and the client goes on with the next leader
// from the revision that it has.
//
// Where the objects are a Kubernetes API server's there is no store, and what is about objects is
// refused with FAILED_PRECONDITION without a NotLeader detail; the scheduler answers all the same.
//
// # Promises to clients
//
// Apply and Delete are acknowledged when etcd has committed. Apply validates all objects before it
// writes the first; what is not valid is INVALID_ARGUMENT with a BadRequest detail: one violation for each
// field, such as "objects[3].spec.containers[0].resources.requests[cpu]". UNAVAILABLE
// means that the outcome may be open; both calls can be repeated.
//
// Watch sends every change after a revision, in order. WatchResponse.revision is one to resume
// after; a client that comes back too late gets OUT_OF_RANGE and lists again. One that leaves a message
// unread for half a minute is sent away (UNAVAILABLE), and resumes.
//
// No answer exceeds 4 MiB: lists are cut into pages and changes into messages below that.
package api
