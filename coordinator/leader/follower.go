package leader

import (
	"sync"

	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/standalone/api"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// follower keeps the client API's side right: while this coordinator leads it
// answers, else it names the leader. What the election says and what this process
// does arrive on different goroutines, in any order.
type follower struct {
	api *api.Server
	// self is this coordinator's id.
	self string
	log  klog.Logger

	mu      sync.Mutex
	leader  *pb.LeaderRecord
	leading bool
}

// saw notes who leads according to etcd; nil: nobody.
func (f *follower) saw(leader *pb.LeaderRecord) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leader = leader
	if id := leader.GetId(); id != "" && id != f.self {
		f.log.Info("Stands by while another leads", "leader", id, "address", leader.GetAddress())
	}
	if !f.leading {
		f.name()
	}
}

// name makes the API name the leader: nobody, where it is this coordinator, which is
// elected and still loading, or has ceased to lead and is not replaced yet.
func (f *follower) name() {
	if f.leader.GetId() == f.self {
		f.api.SetFollowing(nil)
		return
	}
	f.api.SetFollowing(f.leader)
}

// lead makes the API answer, through set.
func (f *follower) lead(set func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leading = true
	set()
}

// follow makes the API name the leader again.
func (f *follower) follow() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leading = false
	f.name()
}
