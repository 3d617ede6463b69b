package leader

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/shardsched/shardsched/coordinator/standalone/api"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// firm is a fence that holds.
type firm struct{}

func (firm) Check() error          { return nil }
func (firm) Compare() clientv3.Cmp { return clientv3.Cmp{} }

// What the election says and what this process does arrive in any order.
func TestTheAPINamesTheLeader(t *testing.T) {
	self, other := &pb.LeaderRecord{Id: "self"}, &pb.LeaderRecord{Id: "other"}
	for name, x := range map[string]struct {
		do         func(f *follower, lead func())
		wantLeader string
		wantSelf   bool
	}{
		"at first":                         {func(*follower, func()) {}, "", false},
		"another was elected":              {func(f *follower, _ func()) { f.saw(other) }, "other", false},
		"it was elected, and leads later":  {func(f *follower, lead func()) { f.saw(self); lead() }, "self", true},
		"it leads, and hears of it later":  {func(f *follower, lead func()) { lead(); f.saw(self) }, "self", true},
		"it leads, and hears of the last":  {func(f *follower, lead func()) { lead(); f.saw(other) }, "self", true},
		"it leads no more, nobody does":    {func(f *follower, lead func()) { lead(); f.saw(nil); f.follow() }, "", false},
		"it leads no more, another does":   {func(f *follower, lead func()) { lead(); f.saw(other); f.follow() }, "other", false},
		"it leads no more, and hears late": {func(f *follower, lead func()) { lead(); f.follow(); f.saw(other) }, "other", false},
		"it leads again":                   {func(f *follower, lead func()) { lead(); f.follow(); f.saw(other); f.saw(self); lead() }, "self", true},
	} {
		t.Run(name, func(t *testing.T) {
			server := api.New(api.Config{Self: self})
			f := &follower{api: server}
			x.do(f, func() { f.lead(func() { server.SetLeading(nil, firm{}, nil) }) })
			got, err := server.GetLeader(t.Context(), &pb.GetLeaderRequest{})
			if err != nil || got.Leader.GetId() != x.wantLeader || got.IsSelf != x.wantSelf {
				t.Errorf("got leader %q, self %t, %v; want %q, %t", got.GetLeader().GetId(), got.GetIsSelf(), err, x.wantLeader, x.wantSelf)
			}
		})
	}
}
