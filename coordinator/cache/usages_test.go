package cache

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/shardsched/shardsched/coordinator/compile"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func TestPodsOfEqualUsageShareIt(t *testing.T) {
	c := New(1)
	seen := map[*pb.PodUsage]bool{}
	for i := range 30 {
		p := newPod(fmt.Sprint("p", i), fmt.Sprint(1+i%3)).Obj()
		on(t, c, p, "a")
		got := c.pods[p.UID].usage
		seen[got] = true
		if want := compile.Usage(p); !proto.Equal(got, want) {
			t.Errorf("pod %d: got %v, want %v", i, got, want)
		}
	}
	if len(seen) != 3 {
		t.Errorf("got %d usages, want the 3 that there are", len(seen))
	}
}

func TestUsagesThatNobodyAsksForAreForgotten(t *testing.T) {
	var x usages
	of := func(cpu int64) *pb.PodUsage { return x.one(&pb.PodUsage{Requests: &pb.Resources{MilliCpu: cpu}}) }
	first, second := of(1), of(2)
	for i := range int64(10 * rememberedUsages) {
		of(3 + i)
		if i%1000 == 0 && of(1) != first {
			t.Fatalf("after %d others: got another message for one that is asked for all the time", i)
		}
		if n := len(x.young) + len(x.old); n > 2*rememberedUsages {
			t.Fatalf("after %d others: got %d remembered, want %d at the most", i, n, 2*rememberedUsages)
		}
	}
	if of(2) == second {
		t.Error("got a message that nobody has asked for in a long time")
	}
	if wild := "\xff"; x.one(&pb.PodUsage{HostPorts: []*pb.HostPort{{Ip: wild}}}).HostPorts[0].Ip != wild {
		t.Error("a text that is none: got another usage")
	}
}
