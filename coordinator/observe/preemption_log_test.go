package observe

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// Names of pods, some of many victims, and no more lines than a person reads.
func TestTheLogTellsOfPreemptions(t *testing.T) {
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	var l PreemptionLog
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var victims []*v1.Pod
	for i := range victimsTold + 2 {
		victims = append(victims, build.Pod(fmt.Sprintf("low-%d", i)).Obj())
	}
	l.Carried(log, &objects.Eviction{Preemptor: build.Pod("vip").Obj(), Node: "n1"}, now)
	if len(lines) != 0 {
		t.Errorf("got %q of a preemption without victims, want nothing", lines)
	}
	l.Carried(log, &objects.Eviction{Preemptor: build.Pod("vip").Obj(), Node: "n1", Victims: victims}, now)
	want := `"victims"="default/low-0 default/low-1 default/low-2 default/low-3 default/low-4 and 2 more" "by"="default/vip" "node"="n1"`
	if len(lines) != 1 || !strings.Contains(lines[0], want) {
		t.Errorf("got %q, want one line with %s", lines, want)
	}
	for i := range 10 * refusalsASecond {
		l.Carried(log, &objects.Eviction{Preemptor: build.Pod(fmt.Sprintf("vip-%d", i)).Obj(), Node: "n1", Victims: victims[:1]}, now)
	}
	if len(lines) != refusalsASecond {
		t.Errorf("got %d lines in a second, want %d", len(lines), refusalsASecond)
	}
}
