package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// BenchmarkAnEventWhileGangsWait: 5,000 gangs of 8 wait for room, and a pod ends whose room is too little for any.
func BenchmarkAnEventWhileGangsWait(b *testing.B) {
	x := newGangs(b)
	for i := range 5000 {
		name := fmt.Sprintf("g%04d", i)
		x.states.Set(build.Gang(name, 8).Obj())
		for k := range 8 {
			p := member(fmt.Sprintf("%s-%d", name, k), name).Obj()
			x.states.PodSet(p, true)
			x.Add(p)
		}
	}
	for range 5000 {
		pods := x.PopBatch(1, nil)
		for _, p := range pods {
			p.ClassID = 7
			x.Unschedulable(p, []string{"room"}, "no")
		}
		x.GroupFailed(pods[0].Group, 8, 3)
	}
	x.now = x.now.Add(time.Minute)
	x.room["n"] = 4
	e := AssignedPodDeleted(build.Pod("gone").Node("n").Obj())
	b.ReportAllocs()
	for b.Loop() {
		if n := x.Move(e); n != 0 {
			b.Fatalf("%d pods are tried, want none", n)
		}
	}
}
