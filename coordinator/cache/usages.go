package cache

import (
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// rememberedUsages and usageBytes bound each half of usages.
const (
	rememberedUsages = 1 << 12
	usageBytes       = 16 << 20
)

// usages lets pods that take as much have one message in common: there are as many kinds of pods as
// there are workloads. It has a young and an old half: what is asked for is in the young one or comes
// back to it, and when that is full, the old half is dropped. What is dropped lives on with its pods.
type usages struct {
	young, old map[string]*pb.PodUsage
	bytes      int    // of the young half
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
	const fixed, perByte = 512, 8 // what a usage takes by the bytes of its encoding
	bytes := fixed + perByte*len(key)
	if len(x.young) >= rememberedUsages || x.bytes+bytes > usageBytes || x.young == nil {
		x.old, x.young, x.bytes = x.young, map[string]*pb.PodUsage{}, 0
	}
	x.young[string(key)] = u
	x.bytes += bytes
	return u
}

// usageOf is what a pod takes, where p is what was known of it before; nil: nothing.
func (c *Cache) usageOf(object *v1.Pod, p *pod) *pb.PodUsage {
	if p != nil && compile.SameUsage(p.object, object) {
		return p.usage
	}
	return c.usages.one(compile.Usage(object))
}
