package answers

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/scorer/devices/selector"
)

// claimed is a cluster with devices, of which answers are held.
type claimed struct {
	t     *rapid.T
	cache *cache.Cache
	*Engine
	pods []*v1.Pod
}

func newClaimed(t *rapid.T) *claimed {
	x := &claimed{t: t, cache: cache.New(2)}
	for i := range 6 {
		name := fmt.Sprint("n", i)
		x.must(x.setNode(name))
		x.must(x.cache.SetSlice(name, slice(name, rapid.IntRange(0, 3).Draw(t, "devices"), rapid.Bool().Draw(t, "model"))))
	}
	shared := slice("shared", 1, true)
	shared.Reach = &pb.DeviceReach{Of: &pb.DeviceReach_NodeName{NodeName: "n1"}}
	x.must(x.cache.SetSharedSlice(shared))
	x.Engine = x.engine()
	x.cache.Watch(x.Log())
	return x
}

func (x *claimed) setNode(name string) error {
	_, err := x.cache.SetNode(build.Node(name).CPU("4").Memory("8Gi").Label(v1.LabelHostname, name).Obj())
	return err
}

func (x *claimed) must(err error) {
	if err != nil {
		x.t.Fatalf("%v", err)
	}
}

func (x *claimed) engine() *Engine {
	return New(Config{Tables: x.cache, BatchSize: 8, Recycle: func(*scorer.Result) {}})
}

func slice(pool string, n int, model bool) *pb.DeviceSlice {
	s := &pb.DeviceSlice{Name: "s", Driver: "gpu", Pool: pool, SliceCount: 1}
	for i := range n {
		d := &pb.Device{Name: fmt.Sprint("d", i)}
		if model {
			d.Attributes = []*pb.DeviceAttribute{{Name: "model", Value: &pb.DeviceAttribute_Int{Int: int64(i)}}}
		}
		s.Devices = append(s.Devices, d)
	}
	return s
}

func use(pool string, i int, taken bool) *pb.DeviceUse {
	return &pb.DeviceUse{Driver: "gpu", Pool: pool, Device: fmt.Sprint("d", i), Dedicated: taken}
}

// classOf is a class that asks for a device, with an expression or without; where there are none, it has no claim.
func classOf(t *rapid.T, id uint64, expressions ...string) *compile.Class {
	q := &pb.Query{
		ClassId: id, Filters: []pb.Plugin{pb.Plugin_PLUGIN_NODE_RESOURCES_FIT},
		Scores: []*pb.ScoreWeight{{Plugin: pb.Plugin_PLUGIN_NODE_RESOURCES_FIT, Weight: 1}},
		Fit: &pb.FitQuery{
			Requests: &pb.Resources{MilliCpu: 500}, ScoringType: pb.ScoringType_SCORING_TYPE_LEAST_ALLOCATED,
			Scored: []*pb.ScoredResource{{Name: "cpu", Weight: 1, Request: 500}},
		},
	}
	if len(expressions) > 0 {
		request := &pb.DeviceRequest{Name: "r"}
		for i, e := range expressions {
			request.FirstAvailable = append(request.FirstAvailable, &pb.DeviceQuestion{
				Name: fmt.Sprint("a", i), Class: "c", Mode: pb.DeviceMode_DEVICE_MODE_EXACT_COUNT, Count: 1, Selectors: []*pb.DeviceSelector{{Expression: e}},
			})
		}
		q.Filters = append(q.Filters, pb.Plugin_PLUGIN_DYNAMIC_RESOURCES)
		q.Scores = append(q.Scores, &pb.ScoreWeight{Plugin: pb.Plugin_PLUGIN_DYNAMIC_RESOURCES, Weight: 2})
		q.ResourceClaims = &pb.ResourceClaimsQuery{
			Claims: []*pb.DeviceClaim{{Requests: []*pb.DeviceRequest{request}}}, Features: &pb.DeviceFeatures{PrioritizedList: true},
		}
	}
	ready, err := scorer.NewClassWith(q, nil, selector.NewCompiler())
	if err != nil {
		t.Fatalf("%v", err)
	}
	return &compile.Class{Query: q, Scorer: ready}
}

// ask asks for the best row, and gives answers with so few candidates that they are used up.
func (x *claimed) ask(e *Engine, c *compile.Class, nominees ...*Nominee) string {
	q := &Question{Class: c, Nominees: nominees}
	e.SetDeciding(true)
	b := e.Begin(1)
	b.Want(q)
	needs := b.Needs()
	for {
		for _, n := range needs {
			r := &scorer.Result{}
			r.Reset(n.Class.ID(), min(n.Candidates, 2))
			for table := range x.cache.Tables {
				e.Evaluator().Evaluate(table, n.Class, scorer.Options{Candidates: min(n.Candidates, 2), Diagnose: n.Diagnose}, r)
			}
			e.Take(n, r)
		}
		choice, found, need := e.Best(q)
		name := func() string { return x.cache.Table(int(choice.Row.Shard)).Name(choice.Row.Index) }
		switch {
		case need != nil:
			needs = []*Need{need}
		case found:
			return fmt.Sprintf("%s of %d with %d", name(), choice.Feasible, choice.Score)
		case choice.Fatal != nil:
			return fmt.Sprintf("%s fails: %s", name(), choice.Fatal.In(func(int32) (string, string) { return "ns", "c" }))
		default:
			own, _ := e.Own(q)
			message, plugins := own.Message(x.cache.Nodes(), nil)
			return fmt.Sprint(message, plugins)
		}
	}
}

// change makes a random change.
func (x *claimed) change() {
	t := x.t
	node := fmt.Sprint("n", rapid.IntRange(0, 5).Draw(t, "node"))
	switch rapid.SampledFrom([]string{"use", "use", "share", "slice", "gone", "pod", "leave", "node"}).Draw(t, "change") {
	case "use":
		x.must(x.cache.UseDevices(node, use(node, rapid.IntRange(0, 2).Draw(t, "device"), rapid.Bool().Draw(t, "taken"))))
	case "share":
		x.must(x.cache.UseSharedDevices(use("shared", 0, rapid.Bool().Draw(t, "taken"))))
	case "slice":
		x.must(x.cache.SetSlice(node, slice(node, rapid.IntRange(0, 3).Draw(t, "devices"), rapid.Bool().Draw(t, "model"))))
	case "gone":
		x.must(x.cache.RemoveSlice(node, "gpu", node, "s"))
	case "pod":
		p := build.Pod("p").UID(fmt.Sprint("uid-", len(x.pods))).CPU("500m").Obj()
		if x.cache.Node(node) != nil {
			x.pods = append(x.pods, p)
			x.must(x.cache.Assume(p, node, x.cache.UsageOf(p), uint64(len(x.pods))))
		}
	case "leave":
		if len(x.pods) > 0 {
			_, _, err := x.cache.RemovePod(x.pods[rapid.IntRange(0, len(x.pods)-1).Draw(t, "pod")].UID)
			x.must(err)
		}
	case "node":
		_, err := x.cache.RemoveNode(node)
		x.must(err)
		x.must(x.setNode(node))
	}
}

// TestHeldAnswersFollowDevices compares answers that are held and repaired with those of an engine that begins anew.
func TestHeldAnswersFollowDevices(t *testing.T) {
	fatal, chosen := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		x := newClaimed(t)
		classes := []*compile.Class{
			classOf(t, 1), classOf(t, 2, "true"), classOf(t, 3, `device.attributes["gpu"].model == 1`, `true`),
			classOf(t, 4, `device.attributes["gpu"].model < 3`),
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			x.change()
			c := rapid.SampledFrom(classes).Draw(t, "class")
			got := x.ask(x.Engine, c)
			if want := x.ask(x.engine(), c); got != want {
				t.Fatalf("class %d: got %s, want %s", c.ID(), got, want)
			}
			if x.SetDeciding(rapid.Bool().Draw(t, "deciding")); c.ID() == 4 && len(got) > 10 && got[3:8] == "fails" {
				fatal++
			}
			chosen++
		}
	})
	if fatal == 0 || fatal == chosen {
		t.Errorf("got %d fatal answers of %d", fatal, chosen)
	}
}

// A row keeps the room of its nominee also where the filter that says so stands behind DynamicResources. An allocated claim that is
// not for the row counts as unavailable then, too.
func TestNomineesKeepTheirRoomBehindDevices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newClaimed(t)
		q := proto.CloneOf(classOf(t, 1, "true").Query)
		slices.Reverse(q.Filters)
		q.ResourceClaims.Allocated = []*pb.AllocatedClaim{{Unavailable: rapid.Bool().Draw(t, "unavailable")}}
		ready, err := scorer.NewClassWith(q, nil, selector.NewCompiler())
		x.must(err)
		c := &compile.Class{Query: q, Scorer: ready}
		var nominees []*Nominee
		for i := range 6 {
			row, _ := x.cache.RowOf(fmt.Sprint("n", i))
			nominees = append(nominees, &Nominee{Row: row, Usages: []*pb.PodUsage{{Requests: &pb.Resources{MilliCpu: 3800}}}})
		}
		free := x.ask(x.engine(), c)
		e := x.engine()
		if got := x.ask(e, c, nominees...); !strings.HasPrefix(got, "0/6 nodes") {
			t.Fatalf("with nominees on all nodes: got %s, want a refusal; without: %s", got, free)
		}
		own, _ := e.Own(&Question{Class: c})
		if got, want := own.UnavailableClaims(), strings.Contains(free, "not available"); (len(got) > 0) != want {
			t.Fatalf("got claims %v unavailable, want some: %t", got, want)
		}
	})
}
