package cli

import (
	"strings"
	"testing"
	"time"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func pendingTable(t *testing.T, by, namespace string) string {
	t.Helper()
	answer, err := (&memory{}).ListPending(t.Context(), &pb.ListPendingRequest{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	o := pendingOptions{by: by, now: func() time.Time { return at(3600).AsTime() }}
	text, err := o.render(answer)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestPendingPodsAreTold(t *testing.T) {
	for name, x := range map[string]struct{ by, namespace, want string }{
		"by reason": {"reason", "", `
CAUSE                                                                             PODS   WORKLOADS   OLDEST   WOULD HELP
cpu: full on every node that is big enough; taint x:NoSchedule is not tolerated   43     2           60m      more such nodes; or a toleration
no node has label disk=ssd (disk=hdd on 12)                                       3      2           59m      label a node
`},
		"by workload": {"workload", "shop", `
WORKLOAD              PODS   OLDEST   CAUSE                                                                                                   WOULD HELP
Deployment shop/web   42     60m      cpu: full on every node that is big enough (39 nodes); taint x:NoSchedule is not tolerated and 1 more   more such nodes; or a toleration
StatefulSet shop/db   3      59m      cpu: full on every node that is big enough (7 nodes); taint x:NoSchedule is not tolerated               more such nodes; or a toleration
`},
		"by namespace": {"namespace", "", `
NAMESPACE   PODS   WORKLOADS     OLDEST   CAUSE
shop        45     2             60m      cpu: full on every node that is big enough (39 nodes); taint x:NoSchedule is not tolerated and 1 more
lab         1      Pod lab/one   58m      no node has label disk=ssd (disk=hdd on 12)
`},
		"nothing": {"reason", "empty", "\nNo pod is pending.\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := pendingTable(t, x.by, x.namespace); got != strings.TrimPrefix(x.want, "\n") {
				t.Errorf("got\n%s\nwant%s", got, x.want)
			}
		})
	}
}
