package answers

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/cluster"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/count"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// script runs a golden script against an engine. Each line is a command:
//
//	node NAME [cpu=N] [zone=Z]       a node comes, or changes
//	class NAME [cpu=N] [spread=KEY]  pods of a class: spread is a soft constraint over the pods with the label app=NAME
//	begin NAME[=PODS] …              a batch begins with so many pods of each class
//	ahead NAME[=PODS] …              workers are asked about these pods; the next batch begins with their answers
//	answer [N]                       the workers answer what is needed, with N candidates a group at the most
//	place NODE [cpu=N] [app=NAME]    another pod is placed
//	leave NODE                       the pod that was placed last on a node leaves
//	nominate NODE [cpu=N]            a pod that comes before all others is nominated to a node; cpu=0: no more
//	best NAME                        asks for the best row of a class
//	take NAME                        the same, and a pod of the class is placed there
type script struct {
	t *testing.T
	*Engine
	cache     *cache.Cache
	counters  *count.Registry
	cluster   *cluster.Cluster
	compiler  *compile.Compiler
	pods      map[string]*build.PodBuilder
	classes   map[string]*compile.Class
	names     map[uint64]string // of classes, by id
	needs     []*Need
	ahead     map[*Need]*scorer.Result // what was asked ahead
	nominees  []*Nominee
	questions map[string]*Question
	placed    map[string][]*v1.Pod // by node
	decisions uint64
	out       strings.Builder
}

// Counters, Cluster and Volumes are parts of compile.ClusterState.
func (s *script) Counters() *count.Registry { return s.counters }
func (s *script) Cluster() *cluster.Cluster { return s.cluster }
func (s *script) Volumes() compile.Volumes  { return nil }
func (*script) Devices() compile.Devices    { return nil }

// compileState is what classes are compiled for.
type compileState struct {
	*cache.Cache
	*script
}

func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &script{
			t: t, cache: cache.New(1), counters: count.New(), cluster: cluster.New(), compiler: compile.New(), pods: map[string]*build.PodBuilder{},
			classes: map[string]*compile.Class{}, names: map[uint64]string{}, questions: map[string]*Question{}, placed: map[string][]*v1.Pod{},
			ahead: map[*Need]*scorer.Result{},
		}
		s.cache.UseCounters(s.counters)
		s.Engine = New(Config{Tables: s.cache, BatchSize: 8, Recycle: func(*scorer.Result) {}})
		s.cache.Watch(s.Log())
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.out.Reset()
			for line := range strings.Lines(d.Input) {
				if words := strings.Fields(line); len(words) > 0 {
					s.run(words)
				}
			}
			if s.out.Len() == 0 {
				return "ok\n"
			}
			return s.out.String()
		})
	})
}

// word is the value of KEY=VALUE among the words of a command.
func word(words []string, key, otherwise string) string {
	for _, w := range words {
		if value, ok := strings.CutPrefix(w, key+"="); ok {
			return value
		}
	}
	return otherwise
}

func (s *script) must(err error) {
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *script) run(words []string) {
	name := ""
	if len(words) > 1 {
		name, _, _ = strings.Cut(words[1], "=")
	}
	switch words[0] {
	case "node":
		n := build.Node(name).CPU(word(words, "cpu", "4")).Memory("8Gi").Label(v1.LabelHostname, name)
		if zone := word(words, "zone", ""); zone != "" {
			n.Zone(zone)
		}
		_, err := s.cache.SetNode(n.Obj())
		s.must(err)
	case "class":
		p := build.Pod("p").Label("app", name).CPU(word(words, "cpu", "1")).Memory("1Gi")
		if key := word(words, "spread", ""); key != "" {
			p.Spread(build.Soft(map[string]string{"zone": v1.LabelTopologyZone, "hostname": v1.LabelHostname}[key], 1, "app="+name))
		}
		s.pods[name] = p
		s.compile(name)
	case "begin":
		s.begin(words[1:])
	case "ahead":
		s.askAhead(words[1:])
	case "answer":
		s.answer(name)
	case "place":
		p := build.Pod("other").CPU(word(words, "cpu", "1"))
		if app := word(words, "app", ""); app != "" {
			p.Label("app", app)
		}
		times, err := strconv.Atoi(word(words, "times", "1"))
		s.must(err)
		for range times {
			s.place(name, p)
		}
	case "leave":
		last := len(s.placed[name]) - 1
		_, _, err := s.cache.RemovePod(s.placed[name][last].UID)
		s.must(err)
		s.placed[name] = s.placed[name][:last]
	case "nominate":
		row, _ := s.cache.RowOf(name)
		s.nominees = slices.DeleteFunc(s.nominees, func(n *Nominee) bool { return n.Row == row })
		if cpu := word(words, "cpu", "1"); cpu != "0" {
			s.nominees = append(s.nominees, &Nominee{Row: row, Usages: []*pb.PodUsage{compile.Usage(build.Pod("nominated").CPU(cpu).Obj())}})
		}
	case "best", "take":
		s.best(name, words[0] == "take")
	default:
		s.t.Fatalf("unknown command %q", words[0])
	}
}

// compile compiles a class anew, as the loop does for each pod.
func (s *script) compile(name string) *compile.Class {
	c, err := s.compiler.Class(s.pods[name].Obj(), rules.DefaultProfile(v1.DefaultSchedulerName), compileState{s.cache, s})
	s.must(err)
	var fresh []uint32
	for _, counter := range s.counters.TakeNew() {
		fresh = append(fresh, counter.ID())
	}
	if len(fresh) > 0 {
		s.must(s.cache.FillCounters(fresh, true, nil))
	}
	s.classes[name], s.names[c.ID()] = c, name
	if c.Base != nil {
		s.names[c.Base.ID()] = "what all have in common"
	}
	return c
}

func (s *script) begin(words []string) {
	pods := 0
	for _, w := range words {
		pods += s.podsOf(w)
	}
	s.SetDeciding(true)
	b := s.Begin(pods)
	s.takeAhead()
	for _, w := range words {
		name, _, _ := strings.Cut(w, "=")
		b.Join(s.compile(name))
	}
	at := 0
	for _, w := range words {
		name, _, _ := strings.Cut(w, "=")
		for range s.podsOf(w) {
			b.At(at)
			at++
			s.questions[name] = &Question{Class: s.classes[name], Nominees: s.nominees}
			if class, need := b.Want(s.questions[name]); need < 0 {
				fmt.Fprintf(&s.out, "%s: an answer about %s is held\n", name, s.names[class])
			}
		}
	}
	s.needs = b.Needs()
	s.show()
}

// askAhead has the workers judge the state of now for later pods.
func (s *script) askAhead(words []string) {
	b := s.Ahead(8, 8)
	for _, w := range words {
		name, _, _ := strings.Cut(w, "=")
		for range s.podsOf(w) {
			c := s.compile(name)
			b.Join(c)
			if _, ok := b.WantAhead(c); !ok {
				fmt.Fprintf(&s.out, "%s: is not asked ahead\n", name)
			}
		}
	}
	s.needs = b.Needs()
	s.AskedAhead(s.needs)
	s.show()
	for _, n := range s.needs {
		s.ahead[n] = s.evaluate(n, n.Candidates)
	}
}

// takeAhead takes what was asked ahead.
func (s *script) takeAhead() {
	for n, r := range s.ahead {
		if _, ok := s.Before([]*Need{n}); !ok {
			r = nil
		}
		what := "is lost"
		if s.TakeAhead(n, r) {
			what = "has come"
		}
		fmt.Fprintf(&s.out, "the answer about %s %s\n", s.names[n.Class.ID()], what)
	}
	clear(s.ahead)
}

// podsOf is how many pods NAME[=PODS] stands for.
func (s *script) podsOf(w string) int {
	_, pods, many := strings.Cut(w, "=")
	if !many {
		return 1
	}
	n, err := strconv.Atoi(pods)
	s.must(err)
	return n
}

// show tells what is needed.
func (s *script) show() {
	for _, n := range s.needs {
		fmt.Fprintf(&s.out, "needs an answer about %s: %d candidates", s.names[n.Class.ID()], n.Candidates)
		if n.Diagnose {
			s.out.WriteString(", and reasons")
		}
		if n.Here {
			s.out.WriteString(", from the own tables")
		}
		s.out.WriteString("\n")
	}
}

func (s *script) answer(most string) {
	for _, n := range s.needs {
		candidates := n.Candidates
		if most != "" {
			m, err := strconv.Atoi(most)
			s.must(err)
			candidates = min(candidates, m)
		}
		s.Take(n, s.evaluate(n, candidates))
	}
	s.needs = nil
}

// evaluate is what the workers find.
func (s *script) evaluate(n *Need, candidates int) *scorer.Result {
	r := &scorer.Result{}
	r.Reset(n.Class.ID(), candidates)
	s.Evaluator().Evaluate(s.cache.Table(0), n.Class, scorer.Options{Candidates: candidates, Diagnose: n.Diagnose}, r)
	for _, g := range r.Groups {
		var list []string
		for _, c := range g.Candidates {
			list = append(list, c.Name)
		}
		fmt.Fprintf(&s.out, "group of %d rows: %s\n", g.Rows, strings.Join(list, " "))
	}
	return r
}

func (s *script) place(node string, p *build.PodBuilder) {
	s.decisions++
	obj := p.UID(fmt.Sprint("uid-", s.decisions)).Obj()
	s.must(s.cache.Assume(obj, node, s.cache.UsageOf(obj), s.decisions))
	s.placed[node] = append(s.placed[node], obj)
}

func (s *script) best(name string, take bool) {
	q := s.questions[name]
	q.Nominees = s.nominees
	c, found, need := s.Best(q)
	switch {
	case need != nil:
		s.needs = []*Need{need}
		s.show()
	case found:
		node := s.cache.Table(0).Name(c.Row.Index)
		fmt.Fprintf(&s.out, "%s: %s, of %d that are feasible, score %d\n", name, node, c.Feasible, c.Score)
		if take {
			s.place(node, build.Pod("p").Label("app", name).CPU(fmt.Sprintf("%dm", s.pods[name].Obj().Spec.Containers[0].Resources.Requests.Cpu().MilliValue())).Memory("1Gi"))
			*q = Question{Class: q.Class, Nominees: s.nominees}
		}
	default:
		a, _ := s.Own(q)
		message, plugins := a.Message(s.cache.Nodes(), nil)
		fmt.Fprintf(&s.out, "%s: %s %v\n", name, message, plugins)
	}
}
