package coordinator

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

const (
	hardNodes = 400
	// hardSteps is less than what the search for a hard claim takes on one of these nodes.
	hardSteps = 14000
	// searchSteps is how many steps a round, and a decision, may take (package aside).
	searchSteps = 1 << 18
)

// hardCluster is nodes whose devices all differ. Of some one device is good. The first pods' claims are hard: many pairs of devices
// are tried for the good one, and there are few nodes that have one.
func hardCluster(hard ...string) *objects.Snapshot {
	all := &objects.Snapshot{}
	for i := range hardNodes {
		node := fmt.Sprintf("n%03d", i)
		all.Nodes = append(all.Nodes, build.Node(node).CPU("8").Memory("64Gi").Obj())
		s := gpus(node, 30)
		for k := range s.Spec.Devices {
			id := int64(1000*i + k)
			attributes := map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"id": {IntValue: &id}}
			if i%150 == 149 && k == 29 {
				attributes["good"] = resourcev1.DeviceAttribute{BoolValue: new(true)}
			}
			s.Spec.Devices[k].Attributes = attributes
		}
		all.Cluster = append(all.Cluster, s)
	}
	for i := range 9 { // the others look for victims
		p := build.Pod(fmt.Sprint("old-", i)).UID(fmt.Sprint("old-", i)).Priority(-1).CPU("1").Node(all.Nodes[i].Name).Obj()
		p.ResourceVersion = "1"
		all.Pods = append(all.Pods, p)
	}
	all.Cluster = append(all.Cluster, gpuClass())
	for _, name := range hard {
		all.Cluster = append(all.Cluster, hardClaim(name))
	}
	return all
}

func hardClaim(name string) *resourcev1.ResourceClaim {
	c := gpuClaim(name)
	c.Spec.Devices.Requests[0].Name, c.Spec.Devices.Requests[0].Exactly.Count = "pair", 2
	last := gpuClaim("").Spec.Devices.Requests[0]
	last.Name = "last"
	last.Exactly.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: `"good" in device.attributes["gpu.example.com"]`}}}
	c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, last)
	c.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{{Requests: []string{"pair"}, DistinctAttribute: new(resourcev1.FullyQualifiedName("gpu.example.com/id"))}}
	return c
}

// hardRun is what became of the pods.
type hardRun struct {
	bound []string // pods, in order
	// hard is where each pod with hard claims is, with its devices, or why it waits; judged what an explanation says of it then.
	hard, judged []string
	aside        float64 // how often a pod was set aside
	turns        uint64
}

// runHard decides pods with hard claims, which come first or last, beside plain pods.
func runHard(t *testing.T, last bool, configure func(*SchedulerConfig), hard ...string) (out hardRun) {
	t.Helper()
	runScenarioWith(t, func(cfg *SchedulerConfig) {
		cfg.Registerer, cfg.Profiles = prometheus.NewPedanticRegistry(), withPreemption()
		configure(cfg)
	}, hardCluster(hard...), nil, func(x *scenario) {
		var events []objects.Event
		for _, name := range hard {
			events = append(events, added(using(cores(name, "1"), name)))
		}
		for i := range 5 {
			events = append(events, added(cores(fmt.Sprint("plain-", i), "1")))
		}
		if last {
			events = append(events[len(hard):], events[:len(hard)]...)
		}
		x.Deliver(events)
		elapse(time.Minute)
		for _, bind := range x.binder.seen {
			name, _, _ := strings.Cut(bind, "@")
			out.bound = append(out.bound, name)
		}
		out.aside = testutil.ToFloat64(x.metrics.Set().Counter("shardsched_unfinished_searches_total"))
		for _, name := range hard {
			e, err := x.Explain(x.ctx, &pb.ExplainRequest{Namespace: "default", Name: name})
			if err != nil {
				t.Fatal(err)
			}
			d := e.GetDecision()
			out.hard = append(out.hard, fmt.Sprint(name, " ", d.GetNode(), d.GetMessage(), d.GetClaims()))
			out.judged = append(out.judged, fmt.Sprint(e.GetFeasible(), e.GetReasons(), e.GetNote()))
		}
		out.turns = x.metrics.Set().Histogram("shardsched_loop_turn_seconds").Count()
	})
	return out
}

// free has a scheduler that decides as if time had no consequences.
func free(cfg *SchedulerConfig) { cfg.QueueNow = func() time.Time { return time.Unix(1e9, 0) } }

// However many steps the search for a pod's devices takes, no turn takes more than its part: pods that come behind it are placed
// meanwhile. It is decided, refused and explained as it would be at once, on own tables and by workers, also by some that never get it done.
func TestHardClaimsAreDecidedInSlices(t *testing.T) {
	hard := []string{"hard-0", "hard-1", "hard-2"} // there are good devices for two
	want := runHard(t, true, free, hard...)
	if want.aside > 0 || len(want.bound) != 7 || !strings.Contains(want.hard[2], "400 cannot allocate all claims") {
		t.Fatalf("without a bound: bound %q after %g slices, hard %q, want two hard pods among 7, and the last refused", want.bound, want.aside, want.hard)
	}
	for name, configure := range map[string]func(*SchedulerConfig){
		"own tables": func(*SchedulerConfig) {},
		"in time": func(cfg *SchedulerConfig) { // the clock goes on with each look at it: searching rests
			var looks atomic.Int64
			cfg.Now = func() time.Time { return time.Now().Add(time.Duration(looks.Add(1)) * 100 * time.Microsecond) }
		},
		"2 workers": func(cfg *SchedulerConfig) {
			cfg.Fanout.Replicas, cfg.Fanout.AuditEvery = 1, -1
			_, cfg.Fanout.Local, cfg.Fanout.Dial = newLiars(1, 0, 0)
		},
		"workers that never finish": func(cfg *SchedulerConfig) {
			cfg.Fanout.AuditEvery = -1
			_, cfg.Fanout.Local, cfg.Fanout.Dial = newLiars(1, 0, 0)
			cfg.Fanout.Dial = lazily(cfg.Fanout.Dial)
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := runHard(t, false, configure, hard...)
			if !slices.Equal(got.hard, want.hard) || !slices.Equal(got.judged, want.judged) {
				t.Errorf("got %q,\nwant %q;\nexplained %q,\nwant    %q", got.hard, want.hard, got.judged, want.judged)
			}
			var behind []string
			for i := range 5 {
				behind = append(behind, fmt.Sprint("plain-", i))
			}
			first := slices.Sorted(slices.Values(got.bound[:5])) // pods of a batch are bound in any order
			if !slices.Equal(first, behind) || len(got.bound) != 7 {
				t.Errorf("bound %q, want %q first, and two hard pods", got.bound, behind)
			}
			// Workers and own tables take the steps of a slice each, and one that allocates.
			if least := float64(hardNodes * hardSteps / (4 * searchSteps)); got.aside < least {
				t.Errorf("set aside %g times, want %g at the least", got.aside, least)
			}
		})
	}
}

// A namespace's flood of hard claims does not hold the hard claim of another, and none holds plain pods that come meanwhile.
func TestHardClaimsOfNamespacesTakeTurns(t *testing.T) {
	const flood = 8
	runScenario(t, hardCluster(), nil, func(x *scenario) {
		var events []objects.Event
		claim := func(namespace string, i int) { // no two ask the same
			name := fmt.Sprint(namespace, "-", i)
			c := hardClaim(name)
			c.Namespace, c.Spec.Devices.Requests[1].Name = namespace, fmt.Sprint("last-", i)
			p := using(cores(name, "1"), name)
			p.Namespace = namespace
			events = append(events, objects.Event{Type: objects.Added, Kind: objects.KindResourceClaim, Object: c}, added(p))
		}
		for i := range flood {
			claim("loud", i)
		}
		claim("calm", flood)
		var order []string
		if err := x.call(x.ctx, func() {
			through := x.evaluate
			x.evaluate = func(ctx context.Context, r []fanout.Request) ([]*scorer.Result, error) {
				results, err := through(ctx, r)
				if x.aside.IsSlice() && err == nil && results[0].Failed == nil {
					order = append(order, x.batch.popped[0].Obj.Namespace)
				}
				return results, err
			}
		}); err != nil {
			t.Fatal(err)
		}
		x.Deliver(events)
		x.deliver(objects.Added, cores("plain", "1"))
		elapse(time.Minute)
		if at := slices.Index(order, "calm"); at < 0 || at > 2 { // each refusal takes two rounds
			t.Errorf("got the slices that found all of %q, want calm behind one of loud", order)
		}
		if i := slices.IndexFunc(x.binder.seen, func(b string) bool { return strings.HasPrefix(b, "plain@") }); i != 0 {
			t.Errorf("bound %q, want the plain pod first", x.binder.seen)
		}
	})
}

// Pods that are for one node alone are judged by the loop, all pods of a batch before any is decided. It takes no more steps for
// them than for others.
func TestHardClaimsOnFewNodes(t *testing.T) {
	const pods = 90
	var hard []string
	var events []objects.Event
	for i := range pods {
		hard = append(hard, fmt.Sprint("hard-", i))
		p := build.Pod(hard[i]).UID(hard[i]).CPU("1").Required(build.Names(fmt.Sprintf("n%03d", i))).Obj()
		p.ResourceVersion = "1"
		events = append(events, added(using(p, hard[i])))
	}
	runScenario(t, hardCluster(hard...), nil, func(x *scenario) {
		x.Deliver(append(events, added(cores("plain", "1"))))
		elapse(time.Minute)
		if got := x.binder.seen; len(got) != 1 {
			t.Errorf("bound %q, want the plain pod", got)
		}
		for _, name := range hard {
			if got := x.message(types.UID(name)); !strings.Contains(got, "1 cannot allocate all claims") {
				t.Errorf("%s: got %q, want it refused by its node", name, got)
			}
		}
		aside := testutil.ToFloat64(x.metrics.Set().Counter("shardsched_unfinished_searches_total"))
		if least := float64(pods * hardSteps / searchSteps); aside < least {
			t.Errorf("set aside %g times, want %g at the least", aside, least)
		}
	})
}

// lazily has workers say of each class with claims of devices that they could not evaluate it.
func lazily(dial fanout.Dial) fanout.Dial {
	return func(ctx context.Context, m fanout.Member) (pb.WorkerServiceClient, io.Closer, error) {
		c, closer, err := dial(ctx, m)
		return lazy{c}, closer, err
	}
}

type lazy struct{ pb.WorkerServiceClient }

func (l lazy) Evaluate(ctx context.Context, req *pb.EvaluateRequest, o ...grpc.CallOption) (*pb.EvaluateResponse, error) {
	resp, err := l.WorkerServiceClient.Evaluate(ctx, req, o...)
	if err != nil {
		return nil, err
	}
	resp.Results = slices.DeleteFunc(resp.Results, func(r *pb.ClassResult) bool {
		at := slices.IndexFunc(req.Classes, func(c *pb.ClassRequest) bool { return c.ClassId == r.ClassId })
		searches := req.Classes[at].SearchSteps > 0 && at == 0
		if searches {
			resp.FailedClasses = append(resp.FailedClasses, r.ClassId)
		}
		return searches
	})
	return resp, nil
}

// Long expressions are compiled beside: their pod is set aside until then, and others are placed meanwhile.
func TestAPodWaitsForItsExpressions(t *testing.T) {
	run := func(configure func(*SchedulerConfig)) (bound []string, aside float64) {
		all := clusterOf(nodesOf("8", "n0", "n1"))
		all.Cluster = append(all.Cluster, gpuClass(), gpus("n0", 2), gpus("n1", 2))
		claim := gpuClaim("long")
		ask := claim.Spec.Devices.Requests[0].Exactly
		for i := range 3 {
			text := fmt.Sprintf("%d == %d%s", i, i, strings.Repeat(" && true", 400))
			ask.Selectors = append(ask.Selectors, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: text}})
		}
		all.Cluster = append(all.Cluster, claim)
		runScenarioWith(t, func(cfg *SchedulerConfig) {
			cfg.Registerer = prometheus.NewPedanticRegistry()
			configure(cfg)
		}, all, nil, func(x *scenario) {
			x.Deliver([]objects.Event{added(using(cores("long", "1"), "long")), added(cores("plain", "1"))})
			elapse(time.Minute)
			bound, aside = x.binder.seen, testutil.ToFloat64(x.metrics.Set().Counter("shardsched_unfinished_searches_total"))
		})
		return bound, aside
	}
	if bound, aside := run(free); len(bound) != 2 || !strings.HasPrefix(bound[0], "long@") || aside > 0 {
		t.Errorf("at once: got %q after %g slices, want the pod with the claim first, and none", bound, aside)
	}
	for name, configure := range map[string]func(*SchedulerConfig){
		"own tables": func(*SchedulerConfig) {},
		"a worker": func(cfg *SchedulerConfig) {
			_, cfg.Fanout.Local, cfg.Fanout.Dial = newLiars(1, 0)
		},
	} {
		if bound, aside := run(configure); len(bound) != 2 || !strings.HasPrefix(bound[0], "plain@") || aside == 0 {
			t.Errorf("%s: got %q after %g slices, want the plain pod first, and some slices", name, bound, aside)
		}
	}
}
