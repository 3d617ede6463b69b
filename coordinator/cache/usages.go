package cache

import (
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// rememberedUsages bounds each half of usages.
const rememberedUsages = 1 << 12

// usages lets pods that take as much have one message in common: there are as many kinds of pods as
// there are workloads. It has a young and an old half: what is asked for is in the young one or comes
// back to it, and when that is full, the old half is dropped. What is dropped lives on with its pods.
type usages struct {
	young, old map[string]*pb.PodUsage
	key        []byte // scratch
}

// one is the usage that stands for all that are equal to u. Nobody writes to it.
func (x *usages) one(u *pb.PodUsage) *pb.PodUsage {
	key, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(x.key[:0], u)
	if err != nil {
		return u // a text in it is no text: no other is like it
	}
	x.key = key
	if known, ok := x.young[string(key)]; ok {
		return known
	}
	if known, ok := x.old[string(key)]; ok {
		u = known
	}
	if len(x.young) >= rememberedUsages || x.young == nil {
		x.old, x.young = x.young, map[string]*pb.PodUsage{}
	}
	x.young[string(key)] = u
	return u
}

// usageOf is what a pod takes, where p is what was known of it before; nil: nothing.
func (c *Cache) usageOf(object *v1.Pod, p *pod) *pb.PodUsage {
	if p != nil && compile.SameUsage(p.object, object) {
		return p.usage
	}
	return c.usages.one(compile.Usage(object))
}
