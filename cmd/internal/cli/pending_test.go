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
