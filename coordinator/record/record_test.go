package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// file is where a test's record goes. It may block, or break.
type file struct {
	bytes.Buffer
	open   chan struct{} // nil: not blocked
	err    error
	closed int
}

func (f *file) Write(b []byte) (int, error) {
	if f.open != nil {
		<-f.open
	}
	if f.err != nil {
		return 0, f.err
	}
	return f.Buffer.Write(b)
}

func (f *file) Close() error { f.closed++; return nil }

func newTest(t *testing.T, f *file, cfg Config) *Writer {
	cfg.Now = func() time.Time { return time.Unix(1000, 0) }
	w := NewWriter(f, cfg)
	go w.Run(t.Context())
	return w
}

// tell spells a record, a line each.
func tell(t *testing.T, in io.Reader) string {
	t.Helper()
	var out strings.Builder
	for r := NewReader(in); ; {
		x, err := r.Next()
		if err == io.EOF {
			return out.String()
		}
		if err != nil {
			fmt.Fprintln(&out, err)
			return out.String()
		}
		line(t, &out, x)
	}
}

func line(t *testing.T, out io.Writer, x *pb.Record) {
	switch what := x.What.(type) {
	case *pb.Record_Begin:
		fmt.Fprintf(out, "begin %s term %d by %s\n", what.Begin.Cluster, what.Begin.Term, what.Begin.Version)
	case *pb.Record_Change:
		obj, err := Object(what.Change)
		if err != nil {
			t.Fatal(err)
		}
		verb := "set"
		if obj == nil {
			verb = "gone"
		}
		fmt.Fprintf(out, "%s %s %s own=%t\n", verb, RefOf(what.Change), what.Change.Uid, what.Change.Own)
	case *pb.Record_Decision:
		d := what.Decision
		fmt.Fprintf(out, "decision %d %s on %q failed=%t assumes %s\n", d.Decision.Seq, d.Decision.Pod, d.Decision.Node, d.Failed, names(t, d.Assumed))
	case *pb.Record_Bound:
		fmt.Fprintf(out, "bound %d latest %s\n", what.Bound.Seq, names(t, what.Bound.Latest))
	case *pb.Record_TakenBack:
		b := what.TakenBack
		fmt.Fprintf(out, "taken back %d from %s waits=%t latest %s: %s\n", b.Seq, b.Node, b.Waits, names(t, b.Latest), b.Message)
	case *pb.Record_Released:
		fmt.Fprintf(out, "released %s from %s\n", what.Released.Uid, what.Released.Node)
	case *pb.Record_End:
		fmt.Fprintf(out, "end %s\n", what.End.Reason)
	}
}

func names(t *testing.T, raw [][]byte) (out []string) {
	list, err := Objects(raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range list {
		out = append(out, objects.RefOf(obj).String())
	}
	return out
}

func TestRoundTrip(t *testing.T) {
	f := &file{}
	w := newTest(t, f, Config{Version: "v1"})
	pv, pvc := &v1.PersistentVolume{}, &v1.PersistentVolumeClaim{}
	pv.Name, pvc.Name, pvc.Namespace = "v", "c", "default"
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "gpu", Namespace: "default"}}
	pod := build.Pod("a").Obj()
	w.Begin("prod", 7, &objects.Snapshot{Nodes: []*v1.Node{build.Node("n").Obj()}, Pods: []*v1.Pod{pod}, Cluster: []objects.Object{pv, pvc}})
	d := &pb.Decision{Seq: 1, Pod: "default/a", Uid: string(pod.UID), Node: "n"}
	w.Decision(d, false, []objects.Object{pv})
	w.Released(pod.UID, "n")
	w.TakenBack(d, errors.New("conflict"), true, []objects.Object{pv, pvc})
	w.Decision(&pb.Decision{Seq: 2, Pod: "default/a", Uid: string(pod.UID), Message: "no"}, true, nil)
	w.Bound(d, []objects.Object{claim})
	w.Change(pod, true, false)
	w.Change(pvc, false, true)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	want := `begin prod term 7 by v1
set PersistentVolume v  own=false
set PersistentVolumeClaim default/c  own=false
set Node n node-n own=false
set Pod default/a pod-a own=false
decision 1 default/a on "n" failed=false assumes [PersistentVolume v]
released pod-a from n
taken back 1 from n waits=true latest [PersistentVolume v PersistentVolumeClaim default/c]: conflict
decision 2 default/a on "" failed=true assumes []
bound 1 latest [ResourceClaim default/gpu]
gone Pod default/a pod-a own=false
set PersistentVolumeClaim default/c  own=true
end 
`
	whole := f.Buffer.Bytes()
	if got := tell(t, bytes.NewReader(whole)); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if got := tell(t, bytes.NewReader(whole[:len(whole)-20])); !strings.HasSuffix(got, ErrCutOff.Error()+"\n") {
		t.Errorf("of a part: got %q, want it cut off", got)
	}
	if f.closed != 1 {
		t.Errorf("the file was closed %d times, want once", f.closed)
	}
	w.Bound(d, nil) // too late, and no harm
	if err := w.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

func TestNilWriter(t *testing.T) {
	var w *Writer
	w.Begin("c", 1, &objects.Snapshot{})
	w.Decision(&pb.Decision{}, false, nil)
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// TestSlowDisk holds that the loop is never held up, and that a new term starts afresh.
func TestSlowDisk(t *testing.T) {
	f := &file{open: make(chan struct{})}
	registry := prometheus.NewRegistry()
	w := newTest(t, f, Config{Buffer: 100, Registerer: registry})
	w.Begin("c", 1, &objects.Snapshot{})
	d := &pb.Decision{Seq: 1, Pod: "default/a", Uid: "u", Node: "n"}
	for range 100_000 { // Run takes some of them: what one write takes, and then blocks
		w.Bound(d, nil)
	}
	close(f.open)
	written := func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.queued) == 0 }
	for late := time.Now().Add(time.Minute); !written(); runtime.Gosched() {
		if time.Now().After(late) {
			t.Fatal("what waits is not written in a minute")
		}
	}
	w.Begin("c", 2, &objects.Snapshot{})
	w.Bound(d, nil)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got := tell(t, &f.Buffer)
	if !strings.Contains(got, "end "+tooSlow+"\nbegin c term 2 by \nbound 1 latest []\nend \n") {
		t.Errorf("got %q, want an end for the slow disk, and another term", got[max(0, len(got)-200):])
	}
	if n := strings.Count(got, "bound"); n > 2000 {
		t.Errorf("got %d records, want at most what the buffer holds", n)
	}
}

func TestLimit(t *testing.T) {
	f := &file{}
	registry := prometheus.NewRegistry()
	w := newTest(t, f, Config{Limit: 200, Registerer: registry})
	w.Begin("c", 1, &objects.Snapshot{})
	for range 100 {
		w.Bound(&pb.Decision{Seq: 1, Uid: "u", Node: "n"}, nil)
	}
	w.Begin("c", 2, &objects.Snapshot{})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if n := f.Buffer.Len(); n > 300 {
		t.Errorf("got %d bytes, want about 200", n)
	}
	if got := tell(t, &f.Buffer); !strings.HasSuffix(got, "end "+limitHit+"\n") {
		t.Errorf("got %q, want it to end with the limit", got)
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP shardsched_record_stopped 1 where the flight recorder has stopped before its time.
# TYPE shardsched_record_stopped gauge
shardsched_record_stopped 1
`), "shardsched_record_stopped"); err != nil {
		t.Error(err)
	}
}

func TestBrokenDisk(t *testing.T) {
	f := &file{err: errors.New("disk is full")}
	w := newTest(t, f, Config{})
	w.Begin("c", 1, &objects.Snapshot{})
	if got, want := fmt.Sprint(w.Close()), "write record: disk is full"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestReaderRefuses what is not a record.
func TestReaderRefuses(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"nothing", "", ""},
		{"a text", "hello world", "record 1: "},
		{"a huge length", "\xff\xff\xff\xff\xff\x0f", "record 1: "},
		{"an empty record", "\x00", "record 1: expected what happened"},
		{"a record before any begin", "\x0a\x2a\x08\x08\x01\x12\x01u\x1a\x01n", "record 1: it comes before any begin\n"},
	} {
		if got := tell(t, strings.NewReader(c.in)); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// FuzzReader: whatever the bytes, the reader ends, and objects come or an error.
func FuzzReader(f *testing.F) {
	out := &file{}
	w := NewWriter(out, Config{})
	go w.Run(f.Context())
	pod := build.Pod("a").Obj()
	w.Begin("c", 1, &objects.Snapshot{Nodes: []*v1.Node{build.Node("n").Obj()}, Pods: []*v1.Pod{pod}})
	w.Decision(&pb.Decision{Seq: 1, Pod: "default/a", Uid: "u", Node: "n"}, false, []objects.Object{pod})
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(out.Buffer.Bytes())
	f.Add([]byte("\x02\x12\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for r := NewReader(bytes.NewReader(b)); ; {
			x, err := r.Next()
			if err != nil {
				return
			}
			if c := x.GetChange(); c != nil {
				_, _ = Object(c)
			}
			_, _ = Objects(x.GetDecision().GetAssumed())
			_, _ = Objects(x.GetTakenBack().GetLatest())
		}
	})
}

// BenchmarkDecision is what the loop pays for a decision and its bind.
func BenchmarkDecision(b *testing.B) {
	w := NewWriter(discard{}, Config{Buffer: 1 << 30})
	go w.Run(b.Context())
	d := &pb.Decision{Seq: 1, Pod: "default/a", Uid: "11111111-2222-3333-4444-555555555555", Node: "n", Profile: "default-scheduler"}
	w.Begin("c", 1, &objects.Snapshot{})
	b.ReportAllocs()
	for b.Loop() {
		w.Decision(d, false, nil)
		w.Bound(d, nil)
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) Close() error                { return nil }
