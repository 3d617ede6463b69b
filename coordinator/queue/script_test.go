package queue

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/devices"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// start is the scripts' time 0.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// script runs a golden script against a queue with a fake clock. Each line of a "run" block
// is a command; what it changes is printed under it, and where all pods are at the
// end. The commands stand in command, podCommand, storageCommands and deviceCommands, their words in pod,
// node and the builders of these objects.
type script struct {
	t     *testing.T
	q     *Queue
	now   time.Time
	pods  map[string]*Pod // by name, the ones popped or added
	nodes map[string]*v1.Node
	bound map[string]*v1.Pod
	store map[string]any // storage objects, by command and name
	// devices knows claims and classes.
	devices *devices.Cache
	why     []string // what the meter was told of incoming pods since the last command
	out     strings.Builder
}

func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		s := &script{t: t}
		s.reset()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "run" {
				d.Fatalf(t, "unknown directive %s, expected run", d.Cmd)
			}
			s.out.Reset()
			for line := range strings.Lines(d.Input) {
				if words := strings.Fields(line); len(words) > 0 {
					s.run(strings.Join(words, " "), words)
				}
			}
			s.show()
			return s.out.String()
		})
	})
}

// reset starts again, with nothing.
func (s *script) reset() {
	s.now = start
	s.store = map[string]any{}
	s.devices = devices.New(devices.Config{})
	s.pods, s.nodes, s.bound = map[string]*Pod{}, map[string]*v1.Node{}, map[string]*v1.Pod{}
	s.q = s.queue()
}

func (s *script) queue() *Queue {
	return newOf(Config{
		Now:      func() time.Time { return s.now },
		Profiles: knowing{s.devices},
		Meter:    incoming(func(_ Place, event string) { s.why = append(s.why, event) }),
	})
}

// run executes a line and prints which pods changed their place, and why.
func (s *script) run(line string, words []string) {
	before := s.places()
	s.why = nil
	result := s.command(words[0], words[1:])
	check(s.t, s.q)
	fmt.Fprintf(&s.out, "> %s\n", line)
	if result != "" {
		fmt.Fprintf(&s.out, "  %s\n", result)
	}
	after := s.places()
	changed := false
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		if before[name] != after[name] {
			fmt.Fprintf(&s.out, "  %s: %s -> %s\n", name, cmp.Or(before[name], "new"), after[name])
			changed = true
		}
	}
	if slices.Sort(s.why); changed && len(s.why) > 0 {
		fmt.Fprintf(&s.out, "  because %s\n", strings.Join(slices.Compact(s.why), ", "))
	}
}

func (s *script) places() map[string]string {
	out := map[string]string{}
	for name, p := range s.pods {
		out[name] = "gone"
		if s.q.Get(p.Obj.UID) == p {
			out[name] = placeName(p.place)
		}
	}
	return out
}

func placeName(p Place) string {
	if p == ErrorBackoff {
		return "error backoff"
	}
	return p.String()
}

// show prints every place in its order.
func (s *script) show() {
	fmt.Fprintf(&s.out, "at %s\n", s.at(s.now))
	for place := Active; place < places; place++ {
		var list []*Pod
		s.q.Each(func(p *Pod) {
			if p.place == place {
				list = append(list, p)
			}
		})
		if len(list) == 0 {
			continue
		}
		less := map[Place]func(a, b *Pod) bool{Active: before, Backoff: endsIn(before), ErrorBackoff: endsIn(before)}[place]
		if less == nil {
			less = olderThan
		}
		slices.SortFunc(list, func(a, b *Pod) int {
			if less(a, b) {
				return -1
			}
			return 1
		})
		fmt.Fprintf(&s.out, "  %s:", placeName(place))
		for _, p := range list {
			fmt.Fprintf(&s.out, " %s%s", p.Obj.Name, s.detail(p))
		}
		s.out.WriteString("\n")
	}
}

func (s *script) detail(p *Pod) string {
	switch p.place {
	case Backoff, ErrorBackoff:
		return "(until " + s.at(p.BackoffUntil) + ")"
	case Unschedulable:
		return "(" + strings.Join(p.RejectedBy, ",") + ")"
	case Gated:
		return "(" + p.Message + ")"
	}
	return ""
}

func (s *script) at(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Sub(start).String()
}

// command executes one command. What it returns is printed.
func (s *script) command(cmd string, args []string) string {
	switch cmd {
	case "after": // DURATION: time passes, then Flush
		d, err := time.ParseDuration(args[0])
		s.must(err)
		s.now = s.now.Add(d)
		s.q.Flush()
	case "wake":
		return s.at(s.q.NextWake())
	case "pop": // N
		return s.pop(args[0])
	case "add", "update": // POD words…
		return s.set(args[0], args[1:])
	case "waiting": // POD PLUGIN,PLUGIN… words…: added, popped and rejected
		s.set(args[0], args[2:])
		if got := s.pop("1"); got != "popped "+args[0]+"#1" {
			s.t.Fatalf("waiting %s: %s, want that pod and no other", args[0], got)
		}
		s.q.Unschedulable(s.pods[args[0]], strings.Split(args[1], ","), "no")
	case "reset":
		s.reset()
	case "bind": // POD NODE: done, and seen on its node
		s.bind(args[0], args[1])
	case "nomination-ends": // POD words…: as the scheduler tells of an update
		return s.nominationEnds(args[0], args[1:])
	case "unbind", "shrink": // POD: leaves its node; POD words…: changes there
		return s.assigned(cmd, args[0], args[1:])
	case "node", "node-gone": // NODE words…: is new or changes; NODE: goes
		return s.node(cmd, args[0], args[1:])
	case "restart":
		return s.restart()
	case "nominated": // who is nominated where
		return s.nominated()
	default:
		if f := storageCommands[cmd]; f != nil {
			return f(s, args[0], args[1:])
		}
		if f := deviceCommands[cmd]; f != nil {
			return f(s, args[0], args[1:])
		}
		return s.podCommand(cmd, s.pods[args[0]], args[1:])
	}
	return ""
}

// podCommand executes a command that is about a pod of the queue.
func (s *script) podCommand(cmd string, p *Pod, args []string) string {
	if p == nil {
		s.t.Fatalf("%s: no such pod or command", cmd)
	}
	if strings.Contains("done reject error give-back", cmd) && p.place != InFlight {
		s.t.Fatalf("%s %s: it is %q, not in flight", cmd, p.Obj.Name, p.place)
	}
	switch cmd {
	case "delete":
		s.q.Delete(p.Obj.UID)
	case "done":
		s.q.Done(p.Obj.UID)
	case "reject": // PLUGIN,PLUGIN… [class=N]
		for k, v := range words(args[1:]) {
			if k == "class" {
				id, err := strconv.ParseUint(v, 10, 64)
				s.must(err)
				p.ClassID = id
			}
		}
		s.q.Unschedulable(p, strings.Split(args[0], ","), "0/1 nodes are available: 1 no.")
	case "error":
		s.q.Error(p, errors.New("boom"))
	case "retry":
		s.q.Retry(p, errors.New("bind refused"))
	case "give-back":
		s.q.GiveBack(p)
	case "activate":
		s.q.Activate(p.Obj.UID)
	case "entry":
		return s.entry(s.q.Entry(p))
	case "nominate": // POD [NODE]
		s.q.Nominate(p, strings.Join(args, ""))
	default:
		s.t.Fatalf("unknown command %s", cmd)
	}
	return ""
}

func (s *script) pop(n string) string {
	count, err := strconv.Atoi(n)
	s.must(err)
	var names []string
	for _, p := range s.q.PopBatch(count, nil) {
		names = append(names, fmt.Sprintf("%s#%d", p.Obj.Name, p.Attempts))
	}
	return "popped " + strings.Join(names, " ")
}

func (s *script) set(name string, args []string) string {
	obj := pod(name, args)
	s.q.Update(obj)
	s.pods[name] = s.q.Get(obj.UID)
	return ""
}

func (s *script) bind(name, node string) {
	obj := s.pods[name].Obj.DeepCopy()
	obj.Spec.NodeName = node
	s.q.Done(obj.UID)
	s.bound[name] = obj
	s.q.Move(AssignedPodAdded(obj))
}

func (s *script) assigned(cmd, name string, args []string) string {
	old := s.bound[name]
	if cmd == "unbind" {
		return s.moved([]Event{AssignedPodDeleted(old)})
	}
	now := pod(name, args)
	now.Spec.NodeName = old.Spec.NodeName
	s.bound[name] = now
	return s.moved(AssignedPodUpdated(old, now))
}

func (s *script) node(cmd, name string, args []string) string {
	old := s.nodes[name]
	if cmd == "node-gone" {
		delete(s.nodes, name)
		return s.moved([]Event{NodeDeleted(old)})
	}
	now := node(name, args)
	s.nodes[name] = now
	if old == nil {
		return s.moved([]Event{NodeAdded(now)})
	}
	return s.moved(NodeUpdated(old, now))
}

func (s *script) moved(events []Event) string {
	if len(events) == 0 {
		return "no event"
	}
	var out []string
	for _, e := range events {
		out = append(out, fmt.Sprintf("%s moves %d", e.String(), s.q.Move(e)))
	}
	return strings.Join(out, ", ")
}

// restart hands the queue over to a new leader through the journal.
func (s *script) restart() string {
	old := s.q
	entries := map[types.UID]*pb.QueueEntry{}
	old.Each(func(p *Pod) {
		if e := old.Entry(p); e != nil {
			if err := e.Validate(); err != nil {
				s.t.Fatalf("entry of %s: %v", p.Obj.Name, err)
			}
			entries[p.Obj.UID] = e
		}
	})
	s.q = s.queue()
	s.q.Restore(entries)
	pods := s.pods
	s.pods = map[string]*Pod{}
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		if p := pods[name]; old.Get(p.Obj.UID) == p {
			s.q.Add(p.Obj)
			s.pods[name] = s.q.Get(p.Obj.UID)
		}
	}
	s.why = nil
	return fmt.Sprintf("%d entries, unclaimed %v", len(entries), s.q.Unclaimed())
}

func (s *script) entry(e *pb.QueueEntry) string {
	if e == nil {
		return "none"
	}
	out := fmt.Sprintf("%s attempts=%d unschedulable=%d errors=%d by=%v first=%s queued=%s", e.Pod, e.Attempts,
		e.UnschedulableCount, e.ErrorCount, e.RejectedBy, s.at(e.FirstAttempt.AsTime()), s.at(e.Queued.AsTime()))
	if e.BackoffUntil != nil {
		out += " until=" + s.at(e.BackoffUntil.AsTime())
	}
	if e.NominatedNode != "" {
		out += " nominated=" + e.NominatedNode
	}
	return out + " message=" + strconv.Quote(e.Message)
}

func (s *script) must(err error) {
	if err != nil {
		s.t.Fatal(err)
	}
}

// incoming is a Meter that hears of incoming pods only.
type incoming func(Place, string)

func (f incoming) Incoming(p Place, event string)              { f(p, event) }
func (incoming) Rejected(string, string, int)                  {}
func (incoming) Hinted(string, Kind, bool, int, time.Duration) {}
