package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// racked is a cluster with nodes in racks and blocks, one PodGroup and pods.
type racked struct {
	nodes []*v1.Node
	group *v1alpha2.PodGroup
	pods  []*v1.Pod
}

// rackedNodes reads nodes such as "b1 r1 h1 4 1": block, rack, name, how many pods of one cpu it has room for, and how many are there.
// "-" is no label.
func (r *racked) rackedNodes(lines string) *racked {
	for line := range strings.SplitSeq(strings.TrimSpace(lines), "\n") {
		var block, rack, name string
		var slots, used int
		fmt.Sscan(line, &block, &rack, &name, &slots, &used)
		n := build.Node(name).CPU(fmt.Sprint(slots)).Memory("64Gi").Pods("110").Label("host", name)
		for key, value := range map[string]string{"block": block, "rack": rack} {
			if value != "-" {
				n.Label(key, value)
			}
		}
		r.nodes = append(r.nodes, n.Obj())
		for i := range used {
			r.pods = append(r.pods, build.Pod(fmt.Sprint("old-", name, "-", i)).UID(fmt.Sprint("old-", name, "-", i)).CPU("1").Node(name).Obj())
		}
	}
	return r
}

// members adds pods of the group that ask for so much cpu.
func (r *racked) members(cpu string, names ...string) *racked {
	for _, name := range names {
		r.pods = append(r.pods, build.Pod(name).UID(name).CPU(cpu).Member(r.group.Name).Obj())
	}
	return r
}

// numbered are m0, m1, …
func numbered(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("m%02d", i))
	}
	return names
}

// topologyConfig has the gates on, and upstream's plugins for pod groups.
func topologyConfig(shards int, preempts bool) SchedulerConfig {
	c := rules.DefaultConfig(v1.DefaultSchedulerName)
	if !preempts {
		c.PostFilters = nil
	}
	p, err := rules.NewProfile(c)
	if err != nil {
		panic(err)
	}
	all := groups.All()
	all.Preemption = false
	return SchedulerConfig{Shards: shards, BatchSize: 64, Groups: all, Profiles: map[string]*compile.Profile{v1.DefaultSchedulerName: p}}
}

// load loads the scene, and decides all.
func (r *racked) decide(t rapid.TB, cfg SchedulerConfig, workers ...fanout.Member) *trial {
	t.Helper()
	x := newTrial(t, cfg, 0)
	x.SetMembers(workers)
	for i, p := range r.pods {
		p.ResourceVersion = fmt.Sprint(i + 1)
	}
	x.groups.Set(r.group)
	x.Load(&objects.Snapshot{Nodes: r.nodes, Pods: r.pods}, nil)
	x.turn(t)
	return x
}

// gang is the state of the PodGroup.
func (x *trial) gang(r *racked) *groups.Group {
	return x.groups.Get(types.NamespacedName{Namespace: r.group.Namespace, Name: r.group.Name})
}

// where writes on which nodes members are: "h1:2 h2:1", or what the verdict says.
func (x *trial) where(r *racked) string {
	g := x.gang(r)
	count := map[string]int{}
	for _, m := range g.Members() {
		if m.Node != "" {
			count[m.Node]++
		}
	}
	var out []string
	for node, n := range count {
		out = append(out, fmt.Sprint(node, ":", n))
	}
	slices.Sort(out)
	if v := g.Verdict(); v != nil && (v.State != groups.Scheduled || v.Base != "") {
		out = append(out, fmt.Sprintf("%s; %s fits %d", v.Base, v.Domain, v.DomainFits))
	}
	return strings.Join(out, " ")
}

const building = `
	b1 r1 h1 4 0
	b1 r1 h2 2 0
	b1 r2 h3 3 0
	b1 r2 h4 3 0
	b2 r3 h5 4 0
	b2 r3 h6 4 0
	b2 r4 h7 1 0
	b2 r4 h8 1 0`

func TestGangsGoWhereTheirTopologySays(t *testing.T) {
	const preferred, sliceKey, sliceSize = "shardsched.io/preferred-topology", "shardsched.io/slice-topology", "shardsched.io/slice-size"
	for _, c := range []struct {
		what, nodes string
		group       *build.PodGroupBuilder
		members     int
		want        string
	}{
		{"racks with 3 and 4 free slots of 4: the fuller takes three", "- a a1 4 1\n- b b1 4 0", build.Gang("g", 3).Within("rack"), 3, "a1:3"},
		{"the emptier takes four, of which three do", "- a a1 4 1\n- b b1 4 0", build.Gang("g", 3).Within("rack"), 4, "b1:4"},
		{"no rack has room for three", "- a a1 2 0\n- b b1 2 0", build.Gang("g", 3).Within("rack"), 3,
			"0/2 placements are available, first placement status: pod group is unschedulable; rack=b fits 2"},
		{"no node has the key", "- - a1 4 0", build.Gang("g", 2).Within("rack"), 2, "no feasible placements found;  fits 0"},
		{"without a constraint there is one placement", "- - a1 1 0", build.Gang("g", 2), 2,
			"0/1 placements are available, first placement status: pod group is unschedulable;  fits 0"},
		{"the narrowest preferred level first", building, build.Gang("g", 2).Annotation(preferred, "host,rack,block"), 2, "h2:2"},
		{"then the next one", building, build.Gang("g", 5).Annotation(preferred, "host,rack,block"), 5, "h1:4 h2:1"},
		{"then the next", building, build.Gang("g", 9).Annotation(preferred, "host,rack,block"), 9, "h5:4 h6:4 h7:1"},
		{"then the whole cluster, over few domains", building, build.Gang("g", 14).Annotation(preferred, "host,rack,block"), 14,
			"h1:4 h2:2 h3:3 h4:3 h7:1 h8:1"},
		{"a preference inside a required key", building, build.Gang("g", 8).Within("block").Annotation(preferred, "rack"), 8, "h5:4 h6:4"},
		{"slices of three, each on one host", building, build.Gang("g", 9).Within("block").Annotation(sliceKey, "host").Annotation(sliceSize, "3"), 9,
			"h1:3 h3:3 h4:3"},
		{"slices of four: one too many", building, build.Gang("g", 16).Annotation(sliceKey, "host").Annotation(sliceSize, "4"), 16,
			"0/1 placements are available, first placement status: pod group is unschedulable;  fits 12"},
		{"slices of four: those that fit are enough", building, build.Gang("g", 8).Annotation(sliceKey, "host").Annotation(sliceSize, "4"), 16,
			"h1:4 h5:4 h6:4"},
	} {
		for _, shards := range []int{1, 3} {
			r := (&racked{group: c.group.Obj()}).rackedNodes(c.nodes).members("1", numbered(c.members)...)
			x := r.decide(t, topologyConfig(shards, true))
			if got := x.where(r); got != c.want {
				t.Errorf("%s, %d shards: got %s, want %s", c.what, shards, got, c.want)
			}
			for _, d := range x.decided(t) {
				if d.PodGroup != "default/g" {
					t.Errorf("%s, %d shards: pod %s is decided with pod group %q", c.what, shards, d.Pod, d.PodGroup)
				}
			}
			x.fanout.Close()
		}
	}
}

func TestTheVerdictNamesALabelThatNoNodeHas(t *testing.T) {
	slices := build.Gang("g", 2).Annotation(groups.SliceTopology, "rack").Annotation(groups.SliceSize, "2")
	for _, group := range []*build.PodGroupBuilder{build.Gang("g", 2).Within("rack"), slices} {
		r := (&racked{group: group.Obj()}).rackedNodes("- - a1 4 0").members("1", numbered(2)...)
		x := r.decide(t, topologyConfig(1, true))
		if got := x.gang(r).Verdict().Waits; got != "a node with the label rack" {
			t.Errorf("the gang waits for %q", got)
		}
		x.fanout.Close()
	}
}

// A profile that does not hold members back tries those whose PodGroup is gone, and fails them where domains would be tried.
func TestMembersWithoutAPodGroupHaveNoDomains(t *testing.T) {
	for _, c := range []struct {
		plugins compile.PodGroupPlugins
		want    string
	}{
		{compile.PodGroupPlugins{Counts: true, Proposes: true}, `podgroup.scheduling.k8s.io "gone" not found`},
		{compile.PodGroupPlugins{Counts: true},
			`running Permit plugin "GangScheduling": failed to get podGroup default/gone: podgroup.scheduling.k8s.io "gone" not found`},
		{compile.PodGroupPlugins{}, ""},
	} {
		cfg := topologyConfig(1, false)
		cfg.Groups.Claims = false // which needs the PodGroup for itself
		config := rules.DefaultConfig(v1.DefaultSchedulerName)
		config.PostFilters, config.PodGroups = nil, c.plugins
		p, err := rules.NewProfile(config)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Profiles = map[string]*compile.Profile{v1.DefaultSchedulerName: p}
		r := (&racked{group: build.Gang("other", 1).Obj(), pods: []*v1.Pod{build.Pod("p").CPU("1").Member("gone").Obj()}}).rackedNodes("- a a1 4 0")
		x := r.decide(t, cfg)
		if d := x.decided(t); len(d) == 0 || d[0].Message != c.want || (d[0].Node != "") != (c.want == "") {
			t.Errorf("%+v: got %+v, want message %q", c.plugins, d, c.want)
		}
		x.fanout.Close()
	}
}

// Late members go where their mates are, or nowhere.
func TestLateMembersArePinned(t *testing.T) {
	const nodes = "- a a1 4 3\n- a a2 4 4\n- b b1 4 0\n- - c1 4 0"
	for _, c := range []struct {
		what string
		on   []string
		want string
	}{
		{"there is room", []string{"a1"}, "a1:2"},
		{"there is none", []string{"a2", "a1", "a1"}, "a1:2 a2:1 0/1 placements are available, first placement status: pod group is unschedulable; rack=a fits 3"},
		{"a node without the label", []string{"a1", "c1"}, "a1:1 c1:1 cannot determine domain for already scheduled pods: " +
			"no topology domain found for pod default/on1;  fits 0"},
		{"in two domains", []string{"a1", "b1"}, "a1:1 b1:1 cannot determine domain for already scheduled pods: " +
			"more than 1 domain found for pod group: a, b;  fits 0"},
	} {
		r := (&racked{group: build.Gang("g", 2).Within("rack").Obj()}).rackedNodes(nodes)
		for i, node := range c.on {
			r.pods = append(r.pods, build.Pod(fmt.Sprint("on", i)).UID(fmt.Sprint("on", i)).Member("g").Node(node).Obj())
		}
		cpu := "1"
		if len(c.on) == 3 {
			cpu = "2"
		}
		x := r.members(cpu, "late").decide(t, topologyConfig(2, true))
		if got := x.where(r); got != c.want {
			t.Errorf("%s: got %s, want %s", c.what, got, c.want)
		}
		x.fanout.Close()
	}
}

// Members that ask for different things are tried domain by domain.
func TestMembersThatDifferAreTriedInEachDomain(t *testing.T) {
	for _, c := range []struct {
		what, nodes string
		group       *build.PodGroupBuilder
		want        string
	}{
		{"a rack that has the room, and not on one node", "- a a1 2 0\n- a a2 2 0\n- b b1 3 0\n- b b2 1 0", build.Gang("g", 2).Within("rack"), "b1:1 b2:1"},
		{"no rack", "- a a1 2 0\n- a a2 2 0\n- b b1 3 0", build.Gang("g", 2).Within("rack"),
			"0/2 placements are available, first placement status: pod group is unschedulable; rack=b fits 1"},
		{"a preferred rack", "x a a1 3 0\nx b b1 4 0\ny c c1 3 0\ny d d1 1 0", build.Gang("g", 2).Annotation("shardsched.io/preferred-topology", "rack,block"),
			"b1:2"},
		{"no preferred rack, a block", "x a a1 3 0\nx b b1 2 0\ny c c1 3 0\ny d d1 1 0", build.Gang("g", 2).Annotation("shardsched.io/preferred-topology", "rack,block"),
			"c1:1 d1:1"},
		{"slices", "- a a1 4 0", build.Gang("g", 2).Annotation("shardsched.io/slice-topology", "rack").Annotation("shardsched.io/slice-size", "2"),
			"slices need pods that are alike: they ask for different things;  fits 0"},
	} {
		r := (&racked{group: c.group.Obj()}).rackedNodes(c.nodes).members("3", "large").members("1", "small")
		x := r.decide(t, topologyConfig(2, true))
		if got := x.where(r); got != c.want {
			t.Errorf("%s: got %s, want %s", c.what, got, c.want)
		}
		x.fanout.Close()
	}
}

// What members say where no rack takes all: their own node's reasons, of the nodes of the best rack, and no pod is preempted. Workload-aware
// preemption changes nothing.
func TestWhatMembersOfAConstrainedGangAreTold(t *testing.T) {
	for _, whole := range []bool{false, true} {
		r := (&racked{group: build.Gang("g", 3).Within("rack").Obj()}).rackedNodes("- a a1 1 0\n- a a2 1 0\n- b b1 1 0\n- b b2 1 1")
		names := numbered(3)
		r.members("1", names...)
		for _, p := range r.pods[1:] {
			p.Spec.Priority = new(int32(7))
		}
		cfg := topologyConfig(2, true)
		cfg.Groups.Preemption = whole
		x := r.decide(t, cfg)
		defer x.fanout.Close()
		decided := x.decided(t)
		if n := len(decided); n != 3 {
			t.Fatalf("workload-aware preemption %t: got %d decisions, want 3", whole, n)
		}
		for i, want := range []string{quorumMissed, quorumMissed, "0/2 nodes are available: 2 Insufficient cpu. " +
			"no new claims to deallocate, preemption: not eligible due to placement-based pod group scheduling limitation"} {
			if got := decided[i].Message; got != want {
				t.Errorf("workload-aware preemption %t, member %d: got %q, want %q", whole, i, got, want)
			}
		}
	}
}

// Any number of shards, and workers, give the same outcome.
func TestTopologyDoesNotDependOnShards(t *testing.T) {
	answered := uint64(0)
	rapid.Check(t, func(t *rapid.T) {
		r, _ := drawRacked(t)
		var first string
		for i, shards := range []int{1, 2, 5, 4} {
			cfg := topologyConfig(shards, false)
			var workers []fanout.Member
			if i == 3 {
				_, workers, cfg.Fanout.Dial = newLiars(1, 0, 0) // honest ones
			}
			x := r.decide(t, cfg, workers...)
			got := x.where(r) + fmt.Sprintf("\n%+v", x.decided(t))
			if i == 0 {
				first = got
			} else if got != first {
				t.Fatalf("%d shards: got\n%s\nwant\n%s", shards, got, first)
			}
			answered += x.fanout.Stats().Snapshots
			x.fanout.Close()
		}
	})
	if answered == 0 {
		t.Error("no worker was sent a shard")
	}
}

// drawRacked draws racks, a gang with a topology, and members, which are alike or not.
func drawRacked(t *rapid.T) (r *racked, alike bool) {
	alike = rapid.Bool().Draw(t, "alike")
	members := rapid.IntRange(1, 8).Draw(t, "members")
	g := build.Gang("g", int32(rapid.IntRange(1, members).Draw(t, "minCount")))
	if rapid.Bool().Draw(t, "required") {
		g.Within(rapid.SampledFrom([]string{"rack", "block"}).Draw(t, "key"))
	}
	if levels := rapid.SampledFrom([]string{"", "rack", "host,rack", "host,rack,block"}).Draw(t, "preferred"); levels != "" {
		g.Annotation("shardsched.io/preferred-topology", levels)
	}
	if alike && rapid.Bool().Draw(t, "slices") {
		g.Annotation("shardsched.io/slice-topology", rapid.SampledFrom([]string{"host", "rack"}).Draw(t, "slice"))
		g.Annotation("shardsched.io/slice-size", fmt.Sprint(rapid.IntRange(1, 3).Draw(t, "size")))
	}
	r = &racked{group: g.Obj()}
	var lines []string
	for i := range rapid.IntRange(1, 8).Draw(t, "nodes") {
		slots := rapid.IntRange(1, 4).Draw(t, "slots")
		lines = append(lines, fmt.Sprintf("b%d %s n%d %d %d", i/4, rapid.SampledFrom([]string{"-", "r1", "r2", "r3"}).Draw(t, "rack"), i, slots,
			rapid.IntRange(0, slots).Draw(t, "used")))
	}
	r.rackedNodes(strings.Join(lines, "\n"))
	for _, name := range numbered(members) {
		cpu := "1"
		if !alike {
			cpu = rapid.SampledFrom([]string{"1", "2"}).Draw(t, "cpu")
		}
		r.members(cpu, name)
	}
	return r, alike
}

// Where members are alike, numbers choose the domain that trying each of them does.
func TestNumbersChooseAsTryingEachDomain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, _ := drawRacked(t)
		for _, key := range []string{"shardsched.io/slice-topology", "shardsched.io/slice-size", "shardsched.io/preferred-topology"} {
			delete(r.group.Annotations, key)
		}
		r.group.Spec = build.Gang("g", r.group.Spec.SchedulingPolicy.Gang.MinCount).Within("rack").Obj().Spec
		x := newTrial(t, topologyConfig(2, false), 0)
		defer x.fanout.Close()
		x.groups.Set(r.group)
		x.Load(&objects.Snapshot{Nodes: r.nodes, Pods: r.pods}, nil)
		x.inbox.drain(never)
		pods := x.queue.PopBatch(64, nil)
		if len(pods) == 0 {
			return
		}
		x.answers.SetDeciding(true)
		defer x.answers.SetDeciding(false)
		attempts, err := x.prepareAll(pods)
		if err != nil {
			t.Fatal(err)
		}
		if err := x.ask(quiet(), attempts); err != nil {
			t.Fatal(err)
		}
		before := x.rows()
		place := func(by func(*topology) *gangOutcome) string {
			q := x.topologyOf(x.gang(r), attempts)
			if err := q.prepare(); err != nil || q.placements() == 0 {
				return fmt.Sprint("no placement: ", err)
			}
			if why, err := q.alike(quiet()); why != "" || err != nil {
				return "not alike"
			}
			o := by(q)
			var nodes []string
			for i := range o.members {
				nodes = append(nodes, o.members[i].node)
			}
			out := fmt.Sprint(o.code, o.best, o.bestFits, nodes)
			o.undo(quiet())
			if after := x.rows(); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Fatalf("a try has left a trace: %v, before %v", after, before)
			}
			return out
		}
		numbers := place(func(q *topology) *gangOutcome { return q.placeAlike(quiet()) })
		tries := place(func(q *topology) *gangOutcome { return q.simulate(quiet()) })
		if numbers != tries && numbers != "not alike" {
			t.Fatalf("by numbers %s, by tries %s", numbers, tries)
		}
	})
}

// A pod group whose members differ is not tried in all of many domains.
func TestFewDomainsAreTried(t *testing.T) {
	r := &racked{group: build.Gang("g", 3).Within("host").Obj()}
	const racks = maxSimulated/3 + 100
	for i := range racks {
		r.nodes = append(r.nodes, build.Node(fmt.Sprint("n", i)).CPU("4").Memory("64Gi").Pods("110").Label("host", fmt.Sprint("h", i)).Obj())
	}
	// By numbers each host takes two of one kind and one of the other; it does not take all three.
	r.members("2", "m1", "m2").members("1", "m3")
	x := r.decide(t, topologyConfig(2, false))
	defer x.fanout.Close()
	want := fmt.Sprintf("0/%d placements are available, %d of %d that may be were not tried, first placement status: pod group is unschedulable",
		racks, racks-maxSimulated/3, racks)
	if got := x.gang(r).Verdict().Base; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Which nodes are in which domain is looked up once, however many domains a gang is tried in whose members differ.
func TestNodesAreLookedThroughOnceForAllDomains(t *testing.T) {
	const nodes = 60
	r := &racked{group: build.Gang("g", 3).Within("host").Obj()}
	for i := range nodes {
		r.rackedNodes(fmt.Sprintf("- - h%02d 4 0", i))
	}
	r.members("1", "a").members("2", "b").members("3", "c") // two of them fit on each node
	x := r.decide(t, topologyConfig(3, false))
	if got := x.where(r); !strings.Contains(got, "fits 2") {
		t.Fatalf("got %s, want two of them to fit", got)
	}
	if got := x.answers.Work().Walked; got != nodes {
		t.Errorf("%d nodes were looked at for their labels, want each of %d once", got, nodes)
	}
}
