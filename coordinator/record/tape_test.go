package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// life records a cluster's life of so many steps, at random, and returns the file.
func life(t *testing.T, rng *rand.Rand, start time.Time, steps int) []byte {
	t.Helper()
	f := &file{}
	now := start
	w := NewWriter(f, Config{Version: "v1", Now: func() time.Time { return now }})
	go w.Run(t.Context())
	pods, waiting, bound := map[types.UID]*v1.Pod{}, map[types.UID]*pb.Decision{}, map[types.UID]bool{}
	seq, made, version := uint64(0), 0, 0
	begin := func(term uint64) {
		clear(pods)
		clear(waiting)
		clear(bound)
		seq = 0
		pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v", ResourceVersion: "1"}}
		claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "gpu", Namespace: "default", UID: "gpu", ResourceVersion: "1"}}
		w.Begin("prod", term, &objects.Snapshot{Nodes: []*v1.Node{build.Node("n0").Obj(), build.Node("n1").Obj()}, Cluster: []objects.Object{pv, claim}})
	}
	begin(1)
	any := func() *v1.Pod {
		for _, uid := range slices.Sorted(maps.Keys(pods)) {
			if rng.IntN(3) == 0 {
				return pods[uid]
			}
		}
		return nil
	}
	newer := func(name string) string { version++; return fmt.Sprint(version + 1) }
	for step := range steps {
		now = now.Add(time.Duration(rng.IntN(3)) * time.Second)
		p := any()
		switch k := rng.IntN(14); {
		case k == 0 && rng.IntN(20) == 0:
			begin(uint64(step + 2))
		case k <= 2 || p == nil:
			made++
			n := build.Pod(fmt.Sprint("p", made)).UID(fmt.Sprint("u", made)).Obj()
			pods[n.UID] = n
			w.Change(n, false, false)
		case k == 3:
			w.Change(build.Node(fmt.Sprint("n", rng.IntN(4))).Label("v", fmt.Sprint(step)).Obj(), rng.IntN(4) == 0, false)
		case k == 4: // deleted
			delete(pods, p.UID)
			delete(waiting, p.UID)
			w.Change(p, true, false)
		case k == 5: // its end
			c := p.DeepCopy()
			c.Status.Phase = v1.PodSucceeded
			pods[p.UID] = c
			w.Change(c, false, false)
		case k == 6: // told of on its node
			if bound[p.UID] && p.Spec.NodeName == "" {
				c := p.DeepCopy()
				c.Spec.NodeName = "n1"
				pods[p.UID] = c
				w.Change(c, false, false)
			}
		case k == 7:
			pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v", ResourceVersion: newer("v"), Labels: map[string]string{"s": fmt.Sprint(step)}}}
			w.Change(pv, false, rng.IntN(5) == 0)
		case k == 8:
			claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "gpu", Namespace: "default", UID: "gpu", ResourceVersion: newer("gpu")}}
			if rng.IntN(2) == 0 {
				claim.Status.Allocation = &resourcev1.AllocationResult{}
			}
			w.Change(claim, rng.IntN(10) == 0, false)
		default:
			if p.Spec.NodeName != "" || objects.IsTerminal(p) || bound[p.UID] {
				continue
			}
			if d := waiting[p.UID]; d != nil {
				delete(waiting, p.UID)
				switch rng.IntN(3) {
				case 0:
					w.Released(p.UID, d.Node)
					w.TakenBack(d, errors.New("conflict"), rng.IntN(2) == 0, assumedOf(d, fmt.Sprint("back ", step)))
				default:
					bound[p.UID] = true
					w.Bound(d, nil)
				}
				continue
			}
			seq++
			d := &pb.Decision{Seq: seq, Pod: "default/" + p.Name, Uid: string(p.UID)}
			if rng.IntN(2) == 0 {
				d.Message = fmt.Sprint("0/2 nodes are available: step ", step)
				w.Decision(d, rng.IntN(4) == 0, nil)
				continue
			}
			d.Node = "n0"
			var assumed []objects.Object
			if rng.IntN(3) == 0 {
				assumed = assumedOf(d, fmt.Sprint("assumed ", step))
			}
			waiting[p.UID] = d
			w.Decision(d, false, assumed)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return f.Buffer.Bytes()
}

func assumedOf(d *pb.Decision, what string) []objects.Object {
	return []objects.Object{&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v", ResourceVersion: "1", Labels: map[string]string{"s": what}}}}
}

// straight is a state that a record has come to, by what doc.go says of it, told by reading all from the beginning.
type straight struct {
	told, assumed map[objects.Ref]objects.Object
	pods          map[types.UID]*v1.Pod
	on            map[types.UID]string
	decisions     []string
}

func (s *straight) take(t *testing.T, r *pb.Record) {
	t.Helper()
	switch what := r.What.(type) {
	case *pb.Record_Begin:
		*s = straight{told: map[objects.Ref]objects.Object{}, assumed: map[objects.Ref]objects.Object{}, pods: map[types.UID]*v1.Pod{}, on: map[types.UID]string{}}
	case *pb.Record_Change:
		obj, err := Object(what.Change)
		if err != nil {
			t.Fatal(err)
		}
		ref, uid := RefOf(what.Change), types.UID(what.Change.Uid)
		switch p, _ := obj.(*v1.Pod); {
		case ref.Kind == objects.KindPod && obj == nil:
			delete(s.pods, uid)
			delete(s.on, uid)
		case p != nil:
			if s.pods[uid] = p; p.Spec.NodeName != "" {
				delete(s.on, uid)
			}
		case obj == nil:
			delete(s.told, ref)
			delete(s.assumed, ref)
		default:
			s.told[ref] = obj
			if x := s.assumed[ref]; x != nil && (what.Change.Own || obj.GetResourceVersion() != x.GetResourceVersion()) {
				delete(s.assumed, ref)
			}
		}
	case *pb.Record_Decision:
		d := what.Decision.Decision
		s.decisions = append(s.decisions, fmt.Sprint(d.Seq, " ", d.Pod, " ", d.Node, d.Message))
		if d.Node != "" {
			s.on[types.UID(d.Uid)] = d.Node
		}
		s.assume(t, what.Decision.Assumed, true)
	case *pb.Record_TakenBack:
		delete(s.on, types.UID(what.TakenBack.Uid))
		s.assume(t, what.TakenBack.Latest, false)
	case *pb.Record_Released:
		delete(s.on, types.UID(what.Released.Uid))
	}
}

func (s *straight) assume(t *testing.T, raw [][]byte, anew bool) {
	list, err := Objects(raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range list {
		if ref := objects.RefOf(obj); anew || s.assumed[ref] != nil {
			s.assumed[ref] = obj
		}
	}
}

// spell tells where pods are, and which objects there are.
func (s *straight) spell() map[string]string {
	out := map[string]string{}
	for uid, p := range s.pods {
		if !objects.IsTerminal(p) {
			out["Pod "+string(uid)] = p.Spec.NodeName + s.on[uid]
		}
	}
	all := maps.Clone(s.told)
	maps.Copy(all, s.assumed)
	for ref, obj := range all {
		out[ref.String()] = obj.GetResourceVersion() + fmt.Sprint(obj.GetLabels())
	}
	return out
}

// looker keeps what views have told.
type looker struct {
	all       map[string]string
	decisions []string
}

func (l *looker) take(v *View) {
	set := func(obj objects.Object) {
		if p, ok := obj.(*v1.Pod); ok {
			if delete(l.all, "Pod "+string(p.UID)); !objects.IsTerminal(p) {
				l.all["Pod "+string(p.UID)] = p.Spec.NodeName
			}
			return
		}
		l.all[objects.RefOf(obj).String()] = obj.GetResourceVersion() + fmt.Sprint(obj.GetLabels())
	}
	if v.Anew {
		l.all, l.decisions = map[string]string{}, nil
		for obj := range everything(v.All) {
			set(obj)
		}
	}
	for _, e := range v.Events {
		switch obj := e.Any(); {
		case e.Type != objects.Deleted:
			set(obj)
		case e.Pod != nil:
			delete(l.all, "Pod "+string(e.Pod.UID))
		default:
			delete(l.all, objects.RefOf(obj).String())
		}
	}
	for _, d := range v.Decisions {
		l.decisions = append(l.decisions, fmt.Sprint(d.Decision.Seq, " ", d.Decision.Pod, " ", d.Decision.Node, d.Decision.Message))
	}
}

func partsOf(files ...[]byte) (parts []Part) {
	for i, text := range files {
		parts = append(parts, Part{Name: fmt.Sprint("part", i), In: bytes.NewReader(text), Size: int64(len(text))})
	}
	return parts
}

// TestAnyMoment goes to random moments of random records, forth and back, and holds the state and the decisions there to a straight
// reading from the beginning.
func TestAnyMoment(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			start := time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)
			files := [][]byte{life(t, rng, start, 1000), life(t, rng, start.Add(time.Hour), 300)}
			tape := &Tape{every: 40}
			if err := tape.sort(partsOf(files[1], files[0])); err != nil {
				t.Fatal(err)
			}
			f := &follower{state: newState(), from: tape}
			for i := range tape.parts {
				if err := tape.scan(t.Context(), i, f); err != nil {
					t.Fatal(err)
				}
			}
			if len(tape.Problems()) > 0 || len(tape.keyframes) > maxKeyframes || tape.every == 40 {
				t.Fatalf("got problems %q, %d keyframes every %d records", tape.Problems(), len(tape.keyframes), tape.every)
			}
			c, seen := tape.Cursor(), &looker{}
			for range 60 {
				to := start.Add(time.Duration(rng.IntN(4500)) * time.Second)
				want := &straight{}
				for _, text := range files {
					for r := NewReader(bytes.NewReader(text)); ; {
						x, err := r.Next()
						if err != nil || x.Time.AsTime().After(to) {
							break
						}
						want.take(t, x)
					}
				}
				if err := c.Seek(t.Context(), to); err != nil {
					t.Fatal(err)
				}
				v, err := c.Look(1 << 20)
				if err != nil || len(v.Problems) > 0 {
					t.Fatalf("%v, problems %q", err, v.Problems)
				}
				if seen.take(v); c.f.moment.After(to) {
					t.Errorf("got the moment %v, want none after %v", c.f.moment, to)
				}
				if d := cmp.Diff(want.spell(), seen.all); d != "" {
					t.Fatalf("at %v (anew %t): -straight +cursor:\n%s", to.Sub(start), v.Anew, d)
				}
				if d := cmp.Diff(want.decisions, seen.decisions); d != "" {
					t.Fatalf("decisions at %v: -straight +cursor:\n%s", to.Sub(start), d)
				}
			}
		})
	}
}

// TestWhatPodsWaitFor tells the last attempt of a pod, and why it was taken back.
func TestWhatPodsWaitFor(t *testing.T) {
	f := &file{}
	at := time.Unix(1000, 0)
	w := NewWriter(f, Config{Now: func() time.Time { at = at.Add(time.Second); return at }})
	go w.Run(t.Context())
	pod := build.Pod("a").Obj()
	w.Begin("c", 1, &objects.Snapshot{Pods: []*v1.Pod{pod}})                                               // 1001
	w.Decision(&pb.Decision{Seq: 1, Uid: string(pod.UID), Message: "no room", Nominated: "n"}, false, nil) // 1002
	d := &pb.Decision{Seq: 2, Uid: string(pod.UID), Node: "n"}                                             //
	w.Decision(d, false, nil)                                                                              // 1003
	w.TakenBack(d, errors.New("conflict"), true, nil)                                                      // 1004
	w.Decision(&pb.Decision{Seq: 3, Uid: string(pod.UID), Message: "the disk is on fire"}, true, nil)      // 1005
	w.Decision(&pb.Decision{Seq: 4, Uid: "nobody", Message: "of a pod that is not there"}, true, nil)      // 1006
	w.Change(pod, true, false)                                                                             // 1007
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	tape, err := OpenTape(t.Context(), partsOf(f.Buffer.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	for second, want := range map[int64]Waiting{
		1001: {}, 1003: {}, 1007: {},
		1002: {Attempts: 1, Message: "no room", Nominated: "n"},
		1004: {Attempts: 2, Message: "conflict", Failed: true},
		1006: {Attempts: 3, Message: "the disk is on fire", Failed: true},
	} {
		c := tape.Cursor()
		if err := c.Seek(t.Context(), time.Unix(second, 0)); err != nil {
			t.Fatal(err)
		}
		v, err := c.Look(2)
		if err != nil {
			t.Fatal(err)
		}
		got := v.Waiting[pod.UID]
		if got.At = (time.Time{}); got != want {
			t.Errorf("at %d: got %+v, want %+v", second, got, want)
		}
		if len(v.Decisions) > 2 || second == 1006 && (len(v.Decisions) != 2 || v.Decisions[0].Attempt != 3) {
			t.Errorf("at %d: got decisions %v, want the last two at the most", second, v.Decisions)
		}
	}
}

func TestClaimsInFlightCount(t *testing.T) {
	f := &file{}
	at := time.Unix(1000, 0)
	w := NewWriter(f, Config{Now: func() time.Time { at = at.Add(time.Second); return at }})
	go w.Run(t.Context())
	claim := func(version string, allocated bool) *resourcev1.ResourceClaim {
		c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "gpu", Namespace: "default", UID: "g", ResourceVersion: version}}
		if allocated {
			c.Status.Allocation = &resourcev1.AllocationResult{}
		}
		return c
	}
	special := claim("", true)
	special.Name, special.GenerateName, special.UID = "", "a-extended-", "s"
	written := claim("2", true)
	written.Name, written.UID = "a-extended-1", "s1"
	pod := build.Pod("a").Obj()
	d := &pb.Decision{Seq: 1, Uid: string(pod.UID), Node: "n"}
	w.Begin("c", 1, &objects.Snapshot{Pods: []*v1.Pod{pod}, Cluster: []objects.Object{claim("4", false)}}) // 1001
	w.Decision(d, false, []objects.Object{claim("4", true), special})                                      // 1002: in flight
	w.Change(claim("5", false), false, false)                                                              // 1003: its finalizer
	w.Bound(d, []objects.Object{claim("6", true), written})                                                // 1004: as written
	w.Change(claim("5", false), false, false)                                                              // 1005: late news
	w.Change(claim("7", false), false, false)                                                              // 1006: given back
	w.Change(pod, true, false)                                                                             // 1007
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	tape, err := OpenTape(t.Context(), partsOf(f.Buffer.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	c, seen := tape.Cursor(), map[string]bool{}
	for second, want := range []string{"gpu=false", "gpu=true in-flight-s=true", "gpu=true in-flight-s=true", "a-extended-1=true gpu=true",
		"a-extended-1=true gpu=true", "a-extended-1=true gpu=false", "gpu=false"} {
		if err := c.Seek(t.Context(), time.Unix(1001+int64(second), 0)); err != nil {
			t.Fatal(err)
		}
		v, err := c.Look(0)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range v.Events {
			if claim, ok := e.Object.(*resourcev1.ResourceClaim); ok {
				if seen[claim.Name] = claim.Status.Allocation != nil; e.Type == objects.Deleted {
					delete(seen, claim.Name)
				}
			}
		}
		if v.Anew {
			clear(seen)
			for _, obj := range v.All.Cluster {
				seen[obj.GetName()] = obj.(*resourcev1.ResourceClaim).Status.Allocation != nil
			}
		}
		var got []string
		for _, name := range slices.Sorted(maps.Keys(seen)) {
			got = append(got, fmt.Sprintf("%s=%t", name, seen[name]))
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("second %d: got %q, want %q", second+1, text, want)
		}
	}
}

// TestADamagedTape shows what is before the damage, and says where that is.
func TestADamagedTape(t *testing.T) {
	start := time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)
	whole := life(t, rand.New(rand.NewPCG(1, 1)), start, 200)
	second := life(t, rand.New(rand.NewPCG(2, 1)), start.Add(time.Hour), 50)
	cut := whole[:len(whole)/2]
	bent := slices.Clone(whole)
	for i := len(bent) / 2; i < len(bent)/2+64; i++ {
		bent[i] = 0xff
	}
	for name, x := range map[string]struct {
		text []byte
		want string
	}{
		"cut off": {cut, "part0: byte NN: the file is cut off here: what is before is shown"},
		"damaged": {bent, "part0: byte NN: the file is damaged here, and what is before is shown: record "},
	} {
		t.Run(name, func(t *testing.T) {
			tape, err := OpenTape(t.Context(), partsOf(x.text, second))
			if err != nil {
				t.Fatal(err)
			}
			end := tape.ends[0]
			if got := strings.Replace(strings.Join(tape.Problems(), "\n"), fmt.Sprint("byte ", end, ":"), "byte NN:", 1); !strings.HasPrefix(got, x.want) {
				t.Errorf("got %q, want %q", got, x.want)
			}
			if end < int64(len(whole)/4) || end > int64(len(whole)/2+64) {
				t.Errorf("it is read to byte %d of %d, want about half", end, len(whole))
			}
			c := tape.Cursor()
			if err := c.Seek(t.Context(), start.Add(30*time.Minute)); err != nil {
				t.Fatal(err)
			}
			if v, err := c.Look(10); err != nil || len(v.All.Nodes) == 0 || len(v.Decisions) == 0 {
				t.Errorf("before the damage: got %v, %v, want nodes and decisions", v, err)
			}
			if _, to := tape.Span(); !to.After(start.Add(59 * time.Minute)) {
				t.Errorf("it ends at %v, want the end of the second part", to)
			}
		})
	}
	for name, text := range map[string][]byte{"empty": nil, "no record": []byte(`{"kind":"List"}`), "no begin": whole[tapeFirst(t, whole):]} {
		if _, err := OpenTape(t.Context(), partsOf(text)); err == nil || !strings.Contains(err.Error(), "part0: byte 0: no record of a scheduler begins here") {
			t.Errorf("%s: got %v, want an error that names the file", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := OpenTape(ctx, partsOf(whole)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want it to end with its context", err)
	}
}

// tapeFirst is where the second record begins.
func tapeFirst(t *testing.T, text []byte) int64 {
	r := NewReader(bytes.NewReader(text))
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	return r.Offset()
}

// FuzzTape holds that no file makes a tape panic, and that what it tells at its end is the same forth and back.
func FuzzTape(f *testing.F) {
	golden, err := goldenRecord()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	f.Add(golden[:len(golden)/2])
	f.Fuzz(func(t *testing.T, text []byte) {
		tape, err := OpenTape(t.Context(), partsOf(text))
		if err != nil {
			return
		}
		from, to := tape.Span()
		forth, back := tape.Cursor(), tape.Cursor()
		for _, at := range []time.Time{from, to} {
			if err := forth.Seek(t.Context(), at); err != nil {
				t.Fatal(err)
			}
			if _, err := forth.Look(10); err != nil {
				t.Fatal(err)
			}
		}
		for _, at := range []time.Time{to, from, to} {
			if err := back.Seek(t.Context(), at); err != nil {
				t.Fatal(err)
			}
		}
		if len(forth.f.pods) != len(back.f.pods) || len(forth.f.objects) != len(back.f.objects) || forth.f.decisions != back.f.decisions {
			t.Errorf("forth %d pods, %d objects, %d decisions; back %d, %d, %d", len(forth.f.pods), len(forth.f.objects), forth.f.decisions,
				len(back.f.pods), len(back.f.objects), back.f.decisions)
		}
		if _, err := back.Look(10); err != nil {
			t.Fatal(err)
		}
	})
}

// goldenRecord is what a release has written.
func goldenRecord() ([]byte, error) {
	files, err := filepath.Glob("testdata/stored/v*.record")
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("got golden files %q, %w", files, err)
	}
	return os.ReadFile(files[0])
}
