package cli

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/shardsched/shardsched/cmd/internal/client"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func pendingTable(t *testing.T, by, namespace string, more listing) string {
	t.Helper()
	answer, err := (&memory{}).ListPending(t.Context(), &pb.ListPendingRequest{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	o := pendingOptions{scope: scope{namespace: namespace}, listing: more, by: by, now: func() time.Time { return at(3600).AsTime() }}
	if err := o.validate(true); err != nil {
		t.Fatal(err)
	}
	text, err := o.render(answer)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestPendingPodsAreTold(t *testing.T) {
	for name, x := range map[string]struct {
		by, namespace string
		want          string
		more          listing
	}{
		"by reason": {by: "reason", want: `
CAUSE                                                                             PODS   WORKLOADS   OLDEST   WOULD HELP
cpu: full on every node that is big enough; taint x:NoSchedule is not tolerated   43     2           60m      more such nodes; or a toleration
no node has label disk=ssd (disk=hdd on 12)                                       3      2           59m      label a node
`},
		"by workload": {by: "workload", namespace: "shop", want: `
WORKLOAD              PODS   OLDEST   CAUSE                                                                                                   WOULD HELP
Deployment shop/web   42     60m      cpu: full on every node that is big enough (39 nodes); taint x:NoSchedule is not tolerated and 1 more   more such nodes; or a toleration
StatefulSet shop/db   3      59m      cpu: full on every node that is big enough (7 nodes); taint x:NoSchedule is not tolerated               more such nodes; or a toleration
`},
		"by namespace": {by: "namespace", want: `
NAMESPACE   PODS   WORKLOADS     OLDEST   CAUSE
shop        45     2             60m      cpu: full on every node that is big enough (39 nodes); taint x:NoSchedule is not tolerated and 1 more
lab         1      Pod lab/one   58m      no node has label disk=ssd (disk=hdd on 12)
`},
		"nothing": {by: "reason", namespace: "empty", want: "\nNo such pod is pending.\n"},
		"sorted, and without headers": {by: "namespace", more: listing{noHeaders: true, sortBy: ".pods"}, want: `
lab    1    Pod lab/one   58m   no node has label disk=ssd (disk=hdd on 12)
shop   45   2             60m   no node has label disk=ssd (disk=hdd on 12) and 1 more
`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := pendingTable(t, x.by, x.namespace, x.more); got != strings.TrimPrefix(x.want, "\n") {
				t.Errorf("got\n%s\nwant%s", got, x.want)
			}
		})
	}
}

// On a terminal no line is longer than its width, and no word is left out.
func TestPendingFitsATerminal(t *testing.T) {
	answer, err := (&memory{}).ListPending(t.Context(), &pb.ListPendingRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, by := range []string{"reason", "workload", "namespace"} {
		wide := pendingTable(t, by, "", listing{})
		for _, width := range []int{90, 100, 120, 1000} {
			o := pendingOptions{by: by, width: width, now: func() time.Time { return at(3600).AsTime() }}
			if err := o.validate(true); err != nil {
				t.Fatal(err)
			}
			text, err := o.render(answer)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range strings.Split(text, "\n") {
				if len(strings.TrimRight(line, " ")) > width {
					t.Errorf("by %s: a line of %d characters on a terminal of %d: %q", by, len(line), width, line)
				}
			}
			got, want := strings.Fields(text), strings.Fields(wide)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("by %s, width %d: the words differ: got\n%s\nof\n%s", by, width, text, wide)
			}
		}
	}
}

// docs/operations.md shows what the command prints.
func TestPendingPrintsWhatIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?m)^    CAUSE .*\n(?:    .*\n)+").Find(text)
	group := func(pods uint64, seconds int, kind, name, plugin, cause, detail, help string) *pb.PendingGroup {
		return &pb.PendingGroup{
			Kind: kind, Namespace: "shop", Name: name, Pods: pods, Oldest: at(3600 - seconds),
			Causes: []*pb.Cause{{Plugin: plugin, Cause: cause, Detail: detail, Help: help}},
		}
	}
	const full, disk = "cpu: full on every node that is big enough", "no node has label disk=ssd"
	const more, label = "more such nodes, pods that leave, or a higher priority", "label a node, or change the pod's selector or affinity"
	o := pendingOptions{by: "reason", now: func() time.Time { return at(3600).AsTime() }}
	if err := o.validate(false); err != nil {
		t.Fatal(err)
	}
	got, err := o.render(&pb.ListPendingResponse{Pods: 50, Groups: []*pb.PendingGroup{
		group(40, 130, "Deployment", "web", "NodeResourcesFit", full, "39 nodes", more),
		group(3, 60, "StatefulSet", "queue", "NodeResourcesFit", full, "39 nodes", more),
		group(2, 180, "Deployment", "nodisk", "NodeAffinity", disk, "disk=hdd on 12, no disk on 28", label),
		group(2, 20, "Job", "load", "NodeAffinity", disk, "disk=hdd on 12, no disk on 28", label),
		group(2, 3600, "Deployment", "big", "NodeResourcesFit", "cpu: larger than any node", "9 > 8", "larger nodes, or smaller requests"),
		group(1, 12, "StatefulSet", "db", "VolumeBinding", "StorageClass nosuch does not exist", "claim data-db-0",
			"create the class, or the claim anew with another"),
	}})
	if want := regexp.MustCompile("(?m)^    ").ReplaceAllString(string(shown), ""); err != nil || got != want {
		t.Errorf("got\n%s%v\nwant\n%s", got, err, want)
	}
}

// Only an answer that differs is printed again: that the oldest pod gets older is no news.
func TestPendingIsWatched(t *testing.T) {
	sh := newShell(t)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	asked := 0
	o := pendingOptions{by: "reason", watch: true}
	o.now = func() time.Time { asked++; return at(3600 + asked).AsTime() }
	if err := o.validate(false); err != nil {
		t.Fatal(err)
	}
	cl, err := client.New(client.Config{Addresses: []string{sh.address}, Dial: client.DialWith(insecure.NewCredentials())})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	sh.server.pendings = func(n int) uint64 { // one pod more with the fourth answer, and with the seventh the end
		if n == 7 {
			end()
		}
		return uint64(n / 4)
	}
	var out bytes.Buffer
	if err := o.run(ctx, Streams{Out: &out}, cl); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "CAUSE"); n != 2 {
		t.Errorf("got %d tables, want 2:\n%s", n, out.String())
	}
}

// Above the table stands where pods are, how old, and who gates them; pods are told one by one where that is asked for.
func TestPendingTellsOfTheQueue(t *testing.T) {
	answer := func() *pb.ListPendingResponse {
		gated := &pb.PendingGroup{
			Causes: []*pb.Cause{{Plugin: "SchedulingGates", Cause: "scheduling gate quota"}}, Kind: "Job", Namespace: "lab", Name: "j", Pods: 3,
			Oldest: at(0), Queues: &pb.QueueCounts{Gated: 3},
			OldestPods: []*pb.PendingPod{{Pod: "lab/j-1", Created: at(0), Queue: "gated", GatedBy: "SchedulingGates"}},
		}
		backing := &pb.PendingGroup{
			Causes: []*pb.Cause{{Cause: "cpu\x1b[2J"}}, Kind: "Pod", Namespace: "lab", Name: "p", Pods: 1, Oldest: at(3599),
			Queues:     &pb.QueueCounts{Backoff: 1},
			OldestPods: []*pb.PendingPod{{Pod: "lab/p", Created: at(3599), Queue: "backoff", Attempts: 4, BackoffUntil: at(3610)}},
		}
		return &pb.ListPendingResponse{
			Pods: 4, Groups: []*pb.PendingGroup{gated, backing}, Queues: &pb.QueueCounts{Gated: 3, Backoff: 1},
			AgeBins: []*durationpb.Duration{durationpb.New(10 * time.Second)}, Ages: []uint64{1, 3},
			Gates: []*pb.GateCount{{Plugin: "SchedulingGates", Gate: "quota\x1b", Pods: 3}, {Plugin: "Own", Pods: 1}},
		}
	}
	const head = "1 backoff, 3 gated, by gate quota  (3), plugin Own (1). By age: 1 below 10s, 3 older.\n\n"
	for _, c := range []struct {
		by, output string
		want       string
	}{
		{by: "pod", want: head + `POD       QUEUE     AGE   ATTEMPTS   UNTIL                  CAUSE
lab/j-1   gated     60m   0          SchedulingGates        scheduling gate quota
lab/p     backoff   1s    4          2026-01-01T01:00:10Z   cpu [2J
… and 2 pods more: -n and -l choose some, --by workload counts all
`},
		{by: "workload", output: "wide", want: head + `WORKLOAD    PODS   OLDEST   CAUSE                   WOULD HELP   QUEUES
Job lab/j   3      60m      scheduling gate quota                3 gated
Pod lab/p   1      1s       cpu [2J                              1 backoff
`},
	} {
		o := pendingOptions{by: c.by, listing: listing{output: c.output}, now: func() time.Time { return at(3600).AsTime() }}
		if err := o.validate(true); err != nil {
			t.Fatal(err)
		}
		got, err := o.render(answer())
		if err != nil || got != c.want {
			t.Errorf("by %s: %v, got\n%s\nwant\n%s", c.by, err, got, c.want)
		}
	}
}
