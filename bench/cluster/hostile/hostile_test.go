package main

import (
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// smallSize is a cluster on which all attacks take half a minute. Calm figures are not looked at: of the calm there are two victims.
func smallSize() size {
	return size{nodes: 100, pods: 200, rate: 20, attackFor: time.Second, wait: testbed.Patience, scale: 0.02, seed: 1}
}

// TestOthersAreScheduledUnderAttack runs all attacks in small, one after the other on one control plane and one
// scheduler, and then tries what the policy of deploy/policy refuses.
func TestOthersAreScheduledUnderAttack(t *testing.T) {
	o := smallSize()
	c := testbed.New(t, testbed.Config{OwnEtcd: true, NoAudit: true})
	first, then := o.cluster(true)
	c.CreateAll(first...)
	c.CreateAll(then...)
	scheduler, err := startScheduler(c.Context(), c.Bed, ours, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range catalogue() {
		t.Run(a.name, func(t *testing.T) { testAttack(t, c, scheduler, o, a) })
	}
	testbed.Stop(scheduler.Process)
	t.Run("policy", func(t *testing.T) { testPolicy(t, c, o) })
}

func testAttack(t *testing.T, c *testbed.Cluster, scheduler *testbed.SchedulerProcess, o size, a *attack) {
	s, err := newAttackCluster(t.Context(), c.Bed, o, a.name)
	if err != nil {
		t.Fatal(err)
	}
	s.scheduler = scheduler
	defer func() {
		if err := s.clear(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	s.wantConfined(t)
	if a.before != nil {
		if err := a.before(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	f, err := s.play(t.Context(), a, "")
	if err != nil {
		t.Fatal(err)
	}
	if f.Unbound > 0 || !f.LeaderStays {
		t.Errorf("got %d of %d victims unbound, leader stays %v; want all bound by the first leader", f.Unbound, f.Victims, f.LeaderStays)
	}
	// The pods of claims are tried, and wait for volumes.
	if a.life == stays && a.name != "claims" {
		s.wantReasons(t, a)
	}
}

// reasons are what the conditions of an attack's own pods say where it is not that no node has so much CPU.
var reasons = map[string]string{
	"many-keys": "more than 64 topology keys that nodes have",
	"devices":   "cannot allocate all claims",
}

// wantReasons waits until the attacker's pods are placed, or their conditions say why they are not.
func (s *attackCluster) wantReasons(t *testing.T, a *attack) {
	want := reasons[a.name]
	if want == "" {
		want = "Insufficient cpu"
	}
	var keys []string
	for _, p := range s.bed.Pods.All() {
		if p.Namespace == s.hostile && p.Spec.NodeName == "" {
			keys = append(keys, p.Namespace+"/"+p.Name)
		}
	}
	c := &testbed.Cluster{Bed: s.bed, T: t}
	for _, p := range c.Until("are told about", isTried, keys...) {
		if p.Spec.NodeName != "" {
			continue
		}
		if got := testbed.ScheduledCondition(p); !strings.Contains(got.Message, want) {
			t.Errorf("%s: got %s %q, want %q", p.Name, got.Reason, got.Message, want)
		}
	}
}

// wantConfined tries what the attacker must not do.
func (s *attackCluster) wantConfined(t *testing.T) {
	_, err := s.tenant.CoreV1().Pods(s.bystanders).Create(t.Context(), build.Pod("p").Image("pause").Obj(), metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("the attacker makes a pod in another namespace: got %v, want it forbidden", err)
	}
}

func TestFaultsAreWhatIsNotStood(t *testing.T) {
	calm := figures{Attack: "a", Side: ours, CalmP99: 30, P99: 60, CalmMiB: 100, PeakMiB: 120, LeaderStays: true}
	beside := []*figures{{Attack: "a", Side: bystander, P99: 40, PeakMiB: 110}, {Attack: "a", Side: upstream, P99: 900, PeakMiB: 200}}
	for _, test := range []struct {
		about  string
		change func(*figures)
		beside []*figures
		want   string
	}{
		{"at the bounds", func(*figures) {}, nil, "stands"},
		{"later", func(f *figures) { f.P99 = 61 }, nil, "p99 above 60 ms"},
		{"a turn", func(f *figures) { f.CalmP99, f.P99 = 10, 50 }, nil, "stands"},
		{"longer than a turn", func(f *figures) { f.CalmP99, f.P99 = 10, 51 }, nil, "p99 above 50 ms"},
		{"as bystanders", func(f *figures) { f.P99 = 80 }, beside, "stands"},
		{"later than bystanders", func(f *figures) { f.P99 = 81 }, beside, "p99 above 80 ms"},
		{"unbound", func(f *figures) { f.Unbound = 3 }, beside, "3 unbound"},
		{"larger", func(f *figures) { f.PeakMiB = 125 }, nil, "memory above 120 MiB"},
		{"larger than a bystander", func(f *figures) { f.PeakMiB = 140 }, beside[:1], "memory above 132 MiB"},
		{"as large as kube-scheduler", func(f *figures) { f.PeakMiB = 200 }, beside, "stands"},
		{"under another attack", func(f *figures) { f.Attack, f.PeakMiB = "b", 200 }, beside, "memory above 120 MiB"},
		{"without a leader, and late", func(f *figures) { f.P99, f.LeaderStays = 90, false }, nil, "p99 above 60 ms, the leader ends"},
	} {
		f := calm
		test.change(&f)
		f.judge(test.beside)
		if got := f.verdict(); got != test.want {
			t.Errorf("%s: got %q, want %q", test.about, got, test.want)
		}
		if err := (&report{Cases: []*figures{&f}}).verdict(); (err == nil) != (test.want == "stands") {
			t.Errorf("%s: got %v as the command's outcome", test.about, err)
		}
	}
}

// TestGrowthIsAFault has memory grow, and victims stay unbound, over rounds.
func TestGrowthIsAFault(t *testing.T) {
	for about, test := range map[string]struct {
		rounds []*round
		want   string
	}{
		"flat":             {[]*round{{Side: ours, EndMiB: 100}, {Side: ours, EndMiB: 150}, {Side: ours, EndMiB: 120}}, ""},
		"grown":            {[]*round{{Side: ours, EndMiB: 100}, {Side: ours, EndMiB: 110}, {Side: ours, EndMiB: 121}}, "ours grows"},
		"unbound":          {[]*round{{Side: ours, EndMiB: 100, Unbound: 1}}, "1 unbound"},
		"upstream's grows": {[]*round{{Side: upstream, EndMiB: 100}, {Side: upstream, EndMiB: 200, Unbound: 2}}, ""},
	} {
		err := (&report{Rounds: test.rounds}).grown()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", about, err, test.want)
		}
	}
}

func TestFlagsAreChecked(t *testing.T) {
	for args, want := range map[string]string{
		"-attacks absent-keys,elsewhere": `-attacks: got "elsewhere"`,
		"-sides theirs":                  `-sides: got "theirs"`,
		"-o yaml":                        `-o: got "yaml"`,
		"-nodes 0":                       "-nodes: got 0",
		"-scale 0":                       "-scale: got 0",
		"-churn -1s":                     "-churn: got -1s",
		"more":                           `unexpected argument "more"`,
	} {
		if _, err := parse(strings.Fields(args), t.Output()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", args, err, want)
		}
	}
	o, err := parse(nil, t.Output())
	if err != nil || len(o.attacks) != len(catalogue()) || len(o.sides) != 3 {
		t.Errorf("without flags: got %d attacks on %d sides, %v; want %d on 2", len(o.attacks), len(o.sides), err, len(catalogue()))
	}
}
