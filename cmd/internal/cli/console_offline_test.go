package cli

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/record"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// served runs `shardsched console -f` with a page's handler in place of a listener.
func served(t *testing.T, o *offline, use func(http.Handler)) (errs string, err error) {
	t.Helper()
	var out, told bytes.Buffer
	s := Streams{In: strings.NewReader(""), Out: &out, Err: &told, Env: func(string) string { return "" }}
	o.open = func(_ context.Context, h http.Handler) error { use(h); return nil }
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	err = o.run(ctx, s)
	return told.String(), err
}

func ask(t *testing.T, h http.Handler, path string) (int, string, http.Header) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String(), w.Header()
}

// answer reads what an RPC of the console's API answers.
func answer[M proto.Message](t *testing.T, h http.Handler, path string, into M) M {
	t.Helper()
	code, text, _ := ask(t, h, path)
	if code != http.StatusOK {
		t.Fatalf("%s: got %d %s", path, code, text)
	}
	if err := protojson.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
	return into
}

const dump = `
{apiVersion: v1, kind: Node, metadata: {name: one, uid: n1}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: there, namespace: shop, uid: p1}, spec: {nodeName: one, containers: [{name: c, env: [{name: TOKEN, value: s3cr3t}], resources: {requests: {cpu: 3}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: fits, namespace: shop, uid: p2}, spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: waits, namespace: shop, uid: p3}
spec: {containers: [{name: c, resources: {requests: {cpu: 3}}}]}
status:
  phase: Pending
  conditions:
  - {type: PodScheduled, status: "False", reason: Unschedulable, message: "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."}
`

// TestADumpIsShown shows a dump as it is, and once its pods are decided.
func TestADumpIsShown(t *testing.T) {
	file := writeFile(t, "dump.yaml", dump)
	explain := func(h http.Handler, name string) *pb.ExplainResponse {
		return answer(t, h, "/console/api/v1/Explain?namespace=shop&name="+name, &pb.ExplainResponse{})
	}
	_, err := served(t, &offline{files: []string{file}, namespace: "default"}, func(h http.Handler) {
		code, page, _ := ask(t, h, "/console/")
		if code != 200 || !strings.Contains(page, "dump "+file) || strings.Contains(page, "data-live") || strings.Contains(page, `id="moment"`) {
			t.Errorf("got %d %s, want the dump's name, nothing live and no slider", code, page)
		}
		if got := explain(h, "fits"); got.Node != "" || got.Feasible != 1 {
			t.Errorf("a pod that would fit: got %v, want it pending, with one node", got)
		}
		if got := explain(h, "there"); got.Node != "one" {
			t.Errorf("got %v, want it on node one", got)
		}
		got := explain(h, "waits")
		if got.Queue != "unschedulable" || got.Feasible != 0 || len(got.Causes) != 1 || !strings.Contains(got.Causes[0].Cause, "cpu") {
			t.Errorf("a pod that waits: got %v, want that it lacks cpu", got)
		}
		pending := answer(t, h, "/console/api/v1/ListPending", &pb.ListPendingResponse{})
		if pending.Pods != 2 || len(pending.Groups) != 2 {
			t.Errorf("got %v, want two pods that pend, for two causes", pending)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	errs, err := served(t, &offline{files: []string{file}, namespace: "default", simulate: true}, func(h http.Handler) {
		if got := explain(h, "fits"); got.Node != "one" || got.Decision.GetFeasible() != 1 {
			t.Errorf("decided: got %v, want it on node one", got)
		}
		if got := explain(h, "waits"); got.Node != "" || got.Decision.GetMessage() == "" {
			t.Errorf("decided: got %v, want it refused", got)
		}
		for _, path := range []string{"", "workers", "api/v1/Explain?namespace=shop&name=there"} {
			if _, text, _ := ask(t, h, "/console/"+path); strings.Contains(text, "s3cr3t") {
				t.Errorf("%s: got the value of an environment variable", path)
			}
		}
	})
	if err != nil || !strings.Contains(errs, "once its pods are decided") {
		t.Fatalf("got %v and %q", err, errs)
	}
}

func TestFilesAreToldByWhatTheyHold(t *testing.T) {
	file, rec := writeFile(t, "dump.yaml", dump), recordOf(t, demoLife())
	for name, x := range map[string]struct {
		o    offline
		want string
	}{
		"both":            {offline{files: []string{file, rec}}, "give one or the other"},
		"simulate record": {offline{files: []string{rec}, simulate: true}, "--simulate: a record has been decided"},
		"nothing":         {offline{files: []string{filepath.Join(t.TempDir(), "none")}}, "no such file"},
		"no objects":      {offline{files: []string{writeFile(t, "x.yaml", "\xff\xfe no yaml")}}, "x.yaml"},
		"no node":         {offline{files: []string{writeFile(t, "y.yaml", "{apiVersion: v1, kind: Namespace, metadata: {name: a}}")}}, "no node in the input"},
	} {
		if _, err := served(t, &x.o, func(http.Handler) { t.Errorf("%s: it is served", name) }); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: got %v, want %q", name, err, x.want)
		}
	}
}

// lived is a life that a scheduler of ours has recorded.
type lived struct {
	nodes int
	pods  int
}

func demoLife() lived { return lived{nodes: 3, pods: 12} }

// recordOf runs a scheduler on a cluster that changes, with a recorder whose clock goes a second with each thing that happens, and
// returns its file.
func recordOf(t *testing.T, l lived) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "flight.record")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	at := began
	w := record.NewWriter(f, record.Config{Version: "v1", Now: func() time.Time { at = at.Add(time.Second); return at }})
	go w.Run(t.Context())
	m := simulation{sharding: Sharding{Cluster: "prod"}}
	cfg, err := m.scheduler(newRegistry(), l.nodes)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Recorder = w
	var nodes []*v1.Node
	for i := range l.nodes {
		nodes = append(nodes, build.Node(fmt.Sprint("n", i)).CPU("4").Memory("8Gi").Label(v1.LabelHostname, fmt.Sprint("n", i)).Obj())
	}
	world, err := newWorld(t.Context(), "recorded", cfg, &objects.Snapshot{Nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	settle := func(events ...objects.Event) {
		world.Deliver(events)
		if err := world.Idle(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range l.pods {
		p := build.Pod(fmt.Sprint("p", i)).UID(fmt.Sprint("u", i)).CPU(fmt.Sprint(1 + rng.IntN(3))).Obj()
		settle(objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: p})
		if i%4 == 3 {
			gone := build.Pod(fmt.Sprint("p", i-3)).UID(fmt.Sprint("u", i-3)).Obj()
			settle(objects.Event{Type: objects.Deleted, Kind: objects.KindPod, Pod: gone})
		}
	}
	n := build.Node("late").CPU("8").Memory("8Gi").Label(v1.LabelHostname, "late").Obj()
	settle(objects.Event{Type: objects.Added, Kind: objects.KindNode, Node: n})
	if err := world.end(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}

var began = time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)

// said is what pages are told of a moment.
func said(t *testing.T, h http.Handler, prefix string, pods int) []string {
	t.Helper()
	var out []string
	for i := range pods {
		code, text, _ := ask(t, h, fmt.Sprint(prefix, "/console/api/v1/Explain?namespace=default&name=p", i))
		if code == http.StatusNotFound {
			out = append(out, fmt.Sprint("p", i, " is not known"))
			continue
		}
		var x pb.ExplainResponse
		if err := protojson.Unmarshal([]byte(text), &x); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if x.Gone != nil { // told where the moment was reached by going forward
			out = append(out, fmt.Sprint("p", i, " is not known"))
			continue
		}
		line := fmt.Sprint("p", i, " on ", x.Node, " in ", x.Queue, " after ", x.Attempts, ", ", x.Feasible, " nodes; ")
		for _, d := range x.History {
			line += fmt.Sprint(d.Decision.Seq, " at ", d.Time.AsTime().Sub(began), " ", d.Decision.Node, d.Decision.Message, "; ")
		}
		out = append(out, line)
	}
	decided := answer(t, h, prefix+"/console/api/v1/ListDecisions?limit=1000", &pb.ListDecisionsResponse{})
	for _, d := range decided.Decisions {
		out = append(out, fmt.Sprint(d.Decision.Seq, " of ", d.Kind, " ", d.Workload, " ", d.Decision.Pod, " at ", d.Time.AsTime().Sub(began)))
	}
	sum := answer(t, h, prefix+"/console/api/v1/GetSummary", &pb.GetSummaryResponse{}).Summary
	pending := answer(t, h, prefix+"/console/api/v1/ListPending", &pb.ListPendingResponse{})
	for _, g := range pending.Groups {
		slices.SortFunc(g.Causes, func(a, b *pb.Cause) int { return strings.Compare(a.Cause, b.Cause) })
		out = append(out, fmt.Sprint(g.Name, " pends: ", g.Causes))
	}
	return append(out, fmt.Sprint(sum.Nodes, " nodes, ", sum.PodsPending, " pending, decisions ", sum.Decisions))
}

// TestARecordIsShownAtAnyMoment holds that what pages tell of a moment does not depend on the moments that were shown before: those that
// a straight replay to each tells.
func TestARecordIsShownAtAnyMoment(t *testing.T) {
	l := demoLife()
	file := recordOf(t, l)
	straight := func(at time.Time) (out []string) {
		_, err := served(t, &offline{files: []string{file}}, func(h http.Handler) {
			out = said(t, h, "/at/"+at.Format(time.RFC3339), l.pods)
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	errs, err := served(t, &offline{files: []string{file}}, func(h http.Handler) {
		rng := rand.New(rand.NewPCG(3, 4))
		differs := map[string]bool{}
		for range 25 {
			at := began.Add(time.Duration(rng.IntN(70)) * time.Second)
			got := said(t, h, "/at/"+at.Format(time.RFC3339), l.pods)
			if d := cmp.Diff(straight(at), got, protocmp.Transform()); d != "" {
				t.Fatalf("at %v: -straight +by way of others:\n%s", at.Sub(began), d)
			}
			differs[strings.Join(got, "\n")] = true
		}
		if len(differs) < 10 {
			t.Errorf("got %d different moments, want more", len(differs))
		}
		last := strings.Join(said(t, h, "", l.pods), "\n")
		if !strings.Contains(last, "4 nodes") || !strings.Contains(last, "p1 on n") {
			t.Errorf("at the end: got %s, want four nodes, and p1 on one", last)
		}
	})
	if err != nil || !strings.Contains(errs, "decisions, from 2026-07-01T10:00:01Z to ") {
		t.Errorf("got %v and %q", err, errs)
	}
}

// TestMomentsInAddresses reads a moment of the query, and keeps it in links.
func TestMomentsInAddresses(t *testing.T) {
	file := recordOf(t, demoLife())
	_, err := served(t, &offline{files: []string{file}}, func(h http.Handler) {
		for path, want := range map[string]string{
			"/console/?t=10":                                     "/at/2026-07-01T10:00:11Z/console/",
			"/console/workers?t=1m&worker=a":                     "",
			"/console/workers?t=2026-07-01T10:00:05.5Z&sort=%26": "/at/2026-07-01T10:00:05.5Z/console/workers?sort=%26",
			"/at/2026-07-01T10:00:05Z/console/workers?t=20s&a=b": "/at/2026-07-01T10:00:21Z/console/workers?a=b",
			"/console/?t=2026-07-01T09:00:00Z":                   "/at/2026-07-01T10:00:01Z/console/",
			"/console/api/v1/GetSummary?t=2026-07-01T10:00:05Z":  "/at/2026-07-01T10:00:05Z/console/api/v1/GetSummary",
		} {
			code, _, header := ask(t, h, path)
			if got := header.Get("Location"); code != http.StatusSeeOther || want != "" && got != want {
				t.Errorf("%s: got %d and %s, want %s", path, code, got, want)
			}
		}
		for _, path := range []string{"/console/?t=yesterday", "/at/nonsense/console/", "/console/?t=-5s", "/console/?t=%3Cscript%3E", "/console/?t=1e300"} {
			if code, page, _ := ask(t, h, path); code != http.StatusBadRequest || !strings.Contains(page, "expected a time such as 2026-07-01T10:00:01Z") || strings.Contains(page, "<script>") {
				t.Errorf("%s: got %d %s, want 400 and what was expected", path, code, page)
			}
		}
		_, page, _ := ask(t, h, "/at/2026-07-01T10:00:05Z/console/workers?worker=a%22b")
		for _, want := range []string{`max="`, `value="4"`, `<input type="hidden" name="worker" value="a&#34;b">`, "timeline.js", `href="workers"`,
			`href="workers?t=2026-07-01T10%3A00%3A15Z&amp;worker=a%22b"`, `<output for="moment" aria-live="polite">2026-07-01T10:00:05.000Z</output>`} {
			if !strings.Contains(page, want) {
				t.Errorf("got %s\nwant %s", page, want)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestADamagedRecordIsShownUpToThere tells the byte on each page.
func TestADamagedRecordIsShownUpToThere(t *testing.T) {
	whole, err := os.ReadFile(recordOf(t, demoLife()))
	if err != nil {
		t.Fatal(err)
	}
	file := writeFile(t, "cut.record", string(whole[:len(whole)/2]))
	errs, err := served(t, &offline{files: []string{file}}, func(h http.Handler) {
		if code, page, _ := ask(t, h, "/console/"); code != 200 || !strings.Contains(page, "the file is cut off here: what is before is shown") {
			t.Errorf("got %d %s, want it told that the file is cut off", code, page)
		}
		if got := answer(t, h, "/console/api/v1/GetSummary", &pb.GetSummaryResponse{}).Summary; got.Decisions == 0 {
			t.Errorf("got %v, want decisions", got)
		}
	})
	if err != nil || !strings.Contains(errs, file+": byte ") {
		t.Errorf("got %v and %q", err, errs)
	}
}
