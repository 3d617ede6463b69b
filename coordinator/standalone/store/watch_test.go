package store_test

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/standalone/store"
)

func TestAWatchTellsEveryChangeOnceAndInOrder(t *testing.T) {
	r := newRig(t)
	r.apply(t, pod("before"))
	w := r.watch(t, r.load(t).Revision)

	first := r.apply(t, pod("a"))
	if e := w.next(t); e.Type != objects.Added || e.Kind != objects.KindPod || e.Pod.Name != "a" || e.Revision != first || e.Pod.ResourceVersion != fmt.Sprint(first) {
		t.Errorf("got %v of %s %v at %d, want ADDED of pod a at %d", e.Type, e.Kind, e.Pod, e.Revision, first)
	}

	if errs := r.Bind(t.Context(), r.fence, []objects.Binding{{Pod: r.pod(t, "a"), Node: "n1"}}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	e := w.next(t)
	if e.Type != objects.Modified || e.Pod.Spec.NodeName != "n1" {
		t.Errorf("got %v to %v, want MODIFIED to n1", e.Type, e.Pod)
	}

	if _, _, err := r.Delete(t.Context(), r.fence, []objects.Ref{ref(objects.KindPod, "default", "a")}); err != nil {
		t.Fatal(err)
	}
	if e := w.next(t); e.Type != objects.Deleted || e.Pod.Spec.NodeName != "n1" {
		t.Errorf("got %v of %v, want DELETED of the pod on n1", e.Type, e.Pod)
	}

	r.apply(t, node("n1"))
	if e := w.next(t); e.Type != objects.Added || e.Node.Name != "n1" {
		t.Errorf("got %v of %v, want ADDED of node n1", e.Type, e.Node)
	}
	r.apply(t, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
	if e := w.next(t); e.Type != objects.Added || e.Object.GetName() != "team" {
		t.Errorf("got %v of %v, want ADDED of namespace team", e.Type, e.Object)
	}
}

func TestNothingIsLostWhenEtcdRestarts(t *testing.T) {
	r := newRig(t)
	r.apply(t, append(pods("before", 20), node("n1"))...)
	before := r.load(t)
	w := r.watch(t, before.Revision)
	r.apply(t, pod("seen"))
	w.next(t)

	r.restart(t, nil)
	after := r.load(t)
	if len(after.Pods) != 21 || len(after.Nodes) != 1 || after.Revision < before.Revision {
		t.Errorf("after the restart: got %d pods, %d nodes at %d, want 21, 1, at least %d", len(after.Pods), len(after.Nodes), after.Revision, before.Revision)
	}
	r.apply(t, pods("after", 150)...)
	for i := range 150 {
		if e := w.next(t); e.Type != objects.Added || e.Pod.Name != fmt.Sprintf("after-%04d", i) {
			t.Fatalf("event %d after the restart: got %v of %s, want ADDED of after-%04d", i, e.Type, e.Pod.Name, i)
		}
	}
}

func TestAWatchCatchesUpFromAnyRevision(t *testing.T) {
	r := newRig(t)
	start := r.load(t).Revision
	r.apply(t, pods("p", 320)...)
	w := r.watch(t, start)
	for i := range 320 {
		if e := w.next(t); e.Pod.Name != fmt.Sprintf("p-%04d", i) {
			t.Fatalf("event %d: got %s", i, e.Pod.Name)
		}
	}
}

func TestCompactedChangesAreSaidToBe(t *testing.T) {
	r := newRig(t)
	start := r.load(t).Revision
	r.apply(t, pod("a"))
	end := r.apply(t, pod("b"))
	if _, err := r.client.Compact(t.Context(), end, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	ignore := func([]objects.Event) error { return nil }
	wantError(t, "watch from before", r.Watch(t.Context(), start, ignore), store.ErrCompacted)

	page, err := r.List(t.Context(), store.Selector{Kind: objects.KindPod}, 1, "")
	if err != nil || page.Continue == "" {
		t.Fatalf("list: got %+v, %v, want a page of more", page, err)
	}
	later := r.apply(t, pod("c"))
	if _, err := r.client.Compact(t.Context(), later, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	_, err = r.List(t.Context(), store.Selector{Kind: objects.KindPod}, 1, page.Continue)
	wantError(t, "the next page of a list from before", err, store.ErrCompacted)
}

func TestAWatchEndsWithTheErrorOfItsReader(t *testing.T) {
	r := newRig(t)
	start := r.load(t).Revision
	r.apply(t, pod("a"))
	enough := errors.New("enough")
	wantError(t, "watch", r.Watch(t.Context(), start, func([]objects.Event) error { return enough }), enough)
}

func TestAStoredObjectThatIsNoneIsNamed(t *testing.T) {
	r := newRig(t)
	start := r.load(t).Revision
	r.put(t, "/shardsched/test/objects/pods/default/broken", "not an object")
	_, err := r.Load(t.Context())
	if err == nil || !strings.Contains(err.Error(), "pods/default/broken") {
		t.Errorf("load: got %v, want an error that names the key", err)
	}
	err = r.Watch(t.Context(), start, func([]objects.Event) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "pods/default/broken") {
		t.Errorf("watch: got %v, want an error that names the key", err)
	}
	if _, _, err := r.Delete(t.Context(), r.fence, []objects.Ref{ref(objects.KindPod, "default", "broken")}); err != nil {
		t.Errorf("delete of it: %v", err)
	}
	if _, err := r.Load(t.Context()); err != nil {
		t.Errorf("load without it: %v", err)
	}
}

func TestListPagesAreOneRevision(t *testing.T) {
	r := newRig(t)
	r.apply(t, pods("p", 25)...)
	other := pod("elsewhere")
	other.Namespace = "other"
	r.apply(t, other)
	sel := store.Selector{Kind: objects.KindPod, Namespace: "default"}
	var names []string
	var revision int64
	for token, pages := "", 0; ; pages++ {
		page, err := r.List(t.Context(), sel, 10, token)
		if err != nil {
			t.Fatal(err)
		}
		if pages == 0 {
			revision = page.Revision
			r.apply(t, pod("p-0012a")) // comes too late for this list
			if _, _, err := r.Delete(t.Context(), r.fence, []objects.Ref{ref(objects.KindPod, "default", "p-0024")}); err != nil {
				t.Fatal(err)
			}
		}
		if page.Revision != revision {
			t.Errorf("page %d: got revision %d, want %d", pages, page.Revision, revision)
		}
		for _, item := range page.Items {
			names = append(names, item.Ref.Name)
		}
		if token = page.Continue; token == "" {
			break
		}
	}
	if len(names) != 25 || !sort.StringsAreSorted(names) || names[24] != "p-0024" {
		t.Errorf("got %d names %v, want the 25 of the first page's revision", len(names), names)
	}
	all, err := r.List(t.Context(), store.Selector{Kind: objects.KindPod}, 0, "")
	if err != nil || len(all.Items) != 26 {
		t.Errorf("all namespaces: got %d, %v, want 26", len(all.Items), err)
	}
	for _, token := range []string{"?", "MTIz", "LTUvYQ", "MTIv"} {
		_, err := r.List(t.Context(), sel, 10, token)
		wantError(t, "token "+token, err, store.ErrBadToken)
	}
}

func TestAPageOfLargeObjectsIsCutBelowTheMessageLimit(t *testing.T) {
	r := newRig(t)
	objs := make([]runtime.Object, 20)
	for i := range objs {
		p := pod(fmt.Sprintf("big-%02d", i))
		p.Annotations = map[string]string{"filling": strings.Repeat("x", 250<<10)}
		objs[i] = p
	}
	r.apply(t, objs...)
	got := 0
	for token := ""; ; {
		page, err := r.List(t.Context(), store.Selector{Kind: objects.KindPod}, 0, token)
		if err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, item := range page.Items {
			size += len(item.Raw)
		}
		if size > 3<<20 {
			t.Errorf("page of %d bytes, want at most 3 MiB", size)
		}
		got += len(page.Items)
		if token = page.Continue; token == "" {
			break
		}
	}
	if got != len(objs) {
		t.Errorf("got %d pods, want %d", got, len(objs))
	}
}

func TestLoadReadsMoreThanAPage(t *testing.T) {
	r := newRig(t)
	r.apply(t, pods("p", 2100)...)
	all := r.load(t)
	if len(all.Pods) != 2100 {
		t.Errorf("got %d pods, want 2100", len(all.Pods))
	}
}

// TestReplayingAWatchGivesWhatIsLoaded does random things to a few pods and holds the
// replay of the watch against a load, with etcd as the judge of what committed.
func TestReplayingAWatchGivesWhatIsLoaded(t *testing.T) {
	r := newRig(t)
	rapid.Check(t, func(rt *rapid.T) {
		start := r.load(t)
		replay := map[string]string{}
		for _, p := range start.Pods {
			replay[p.Name] = p.ResourceVersion + " on " + p.Spec.NodeName
		}
		for _, step := range rapid.SliceOfN(rapid.SampledFrom([]string{"apply", "relabel", "delete", "bind"}), 1, 12).Draw(rt, "steps") {
			r.randomStep(rt, step)
		}
		end := r.load(t)
		want := map[string]string{}
		for _, p := range end.Pods {
			want[p.Name] = p.ResourceVersion + " on " + p.Spec.NodeName
		}
		done := errors.New("done")
		if end.Revision > start.Revision {
			err := r.WatchRaw(t.Context(), store.Selector{Kind: objects.KindPod}, start.Revision, func(events []store.RawEvent, revision int64) error {
				for _, e := range events {
					if e.Type == objects.Deleted {
						delete(replay, e.Item.Ref.Name)
						continue
					}
					obj, err := objects.Decode(e.Item.Raw)
					if err != nil {
						return err
					}
					replay[e.Item.Ref.Name] = fmt.Sprintf("%d on %s", e.Item.Revision, obj.(*v1.Pod).Spec.NodeName)
				}
				if revision >= end.Revision {
					return done
				}
				return nil
			})
			if !errors.Is(err, done) {
				rt.Fatal(err)
			}
		}
		if fmt.Sprint(replay) != fmt.Sprint(want) {
			rt.Errorf("replayed: got %v, want %v", replay, want)
		}
	})
}

func (r *rig) randomStep(t *rapid.T, step string) {
	name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "pod")
	ctx := t.Context()
	switch step {
	case "delete":
		if _, _, err := r.Delete(ctx, r.fence, []objects.Ref{ref(objects.KindPod, "default", name)}); err != nil {
			t.Fatal(err)
		}
	case "bind":
		all, err := r.Load(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all.Pods {
			if p.Name == name {
				err := r.Bind(ctx, r.fence, []objects.Binding{{Pod: p, Node: "n1"}})[0]
				if bound := p.Spec.NodeName != ""; bound != errors.Is(err, objects.ErrAlreadyBound) || !bound && err != nil {
					t.Fatalf("bind of a pod on %q: %v", p.Spec.NodeName, err)
				}
			}
		}
	default:
		p := pod(name)
		if step == "relabel" {
			p.Labels["n"] = fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "n"))
		}
		if _, _, err := r.Apply(ctx, r.fence, []runtime.Object{p}, false); err != nil {
			t.Fatal(err)
		}
	}
}
