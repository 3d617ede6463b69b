package clients

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// pods are more than two pages of 500. Nobody schedules them.
const pods = 1100

// dump is what snapshot writes.
type dump struct {
	Items []struct {
		APIVersion, Kind string
		Metadata         struct{ Namespace, Name, ResourceVersion string }
	}
}

// change is the part of simulate's answer about one workload, and who has to leave for it.
type change struct {
	Change []struct {
		Name string
		Pods []struct{ Node string }
	}
	Preempted []struct {
		Name string
		By   []string
	}
}

func TestSnapshotAndSimulateLive(t *testing.T) {
	r := newRig(t)
	r.createFile(t, "testdata/one-of-each.yaml")
	var many []runtime.Object
	for i := range pods {
		p := build.Pod(fmt.Sprintf("many-%04d", i)).CPU("1").Obj()
		p.Spec.SchedulerName = "nobody"
		many = append(many, p)
	}
	r.CreateAll(many...)
	all := listed(t)
	reader := r.user(t, "reader", mayList(all)...)
	file := filepath.Join(t.TempDir(), "cluster.json")
	got := r.mustRun(t, "snapshot", "--kubeconfig", reader)
	if err := os.WriteFile(file, []byte(got.out), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("holds every kind at one moment", func(t *testing.T) { r.holdsEveryKind(t, got, all) })
	t.Run("asks for nothing else, in pages", func(t *testing.T) { r.asksInPages(t, all) })
	t.Run("says as simulate --live", func(t *testing.T) { r.decides(t, file, reader) })
	t.Run("top adds up", func(t *testing.T) { r.addsUp(t, reader) })
	t.Run("names the right that is missing", func(t *testing.T) { r.namesRights(t, all) })
}

// holdsEveryKind looks for an object of each resource, for all pods, and for what must not be there.
func (r *rig) holdsEveryKind(t *testing.T, got outcome, all []schema.GroupResource) {
	var d dump
	if err := json.Unmarshal([]byte(got.out), &d); err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, x := range d.Items {
		group, _, isGrouped := strings.Cut(x.APIVersion, "/")
		if !isGrouped {
			group = ""
		}
		found[strings.ToLower(x.Kind)+"."+group]++
	}
	for _, x := range all {
		singular := strings.TrimSuffix(x.Resource, "s") + "."
		if strings.HasSuffix(x.Resource, "classes") {
			singular = strings.TrimSuffix(x.Resource, "es") + "."
		}
		if singular == "csistoragecapacitie." {
			singular = "csistoragecapacity."
		}
		if found[singular+x.Group] == 0 {
			t.Errorf("no object of %s in the dump, which has %v", x, found)
		}
		delete(found, singular+x.Group)
	}
	if len(found) > 0 {
		t.Errorf("the dump has objects of %v, which docs/operations.md does not name", found)
	}
	if n := strings.Count(got.out, `"name":"many-`); n != pods {
		t.Errorf("got %d pods, want %d", n, pods)
	}
	for _, text := range []string{"hunter", "managedFields"} {
		if strings.Contains(got.out, text) {
			t.Errorf("the dump has %q in it", text)
		}
	}
	want := fmt.Sprintf("2 nodes, %d pods and %d other objects at resource version ", pods+1, len(d.Items)-pods-3)
	if !strings.HasPrefix(got.told, want) || strings.Contains(got.told, ";") {
		t.Errorf("got %q, want %q and a version, and no kind of a later moment", got.told, want)
	}
}

// asksInPages holds the audit log to lists of the resources, of 500 objects each at one version.
func (r *rig) asksInPages(t *testing.T, all []schema.GroupResource) {
	events, err := r.Audit(r.Context())
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]int{}
	for _, e := range events {
		if !strings.HasPrefix(e.User.Username, "system:serviceaccount:") {
			continue
		}
		x := schema.GroupResource{Group: e.ObjectRef.APIGroup, Resource: e.ObjectRef.Resource}
		if e.Verb != "list" || !slices.Contains(all, x) || e.ResponseStatus.Code != 200 {
			t.Errorf("got the request %s %s: %d, want lists of what docs/operations.md names alone", e.Verb, e.RequestURI, e.ResponseStatus.Code)
		}
		if !strings.Contains(e.RequestURI, "limit=500") {
			t.Errorf("got %s, want pages of 500", e.RequestURI)
		}
		if pages[x.Resource] > 0 && !strings.Contains(e.RequestURI, "continue=") || pages[x.Resource] == 0 && x.Resource != "nodes" && !isExact(e) {
			t.Errorf("got page %d of %s by %s, want the version of the first list, and then what follows", pages[x.Resource], x, e.RequestURI)
		}
		pages[x.Resource]++
	}
	if pages["pods"] != 3 || len(pages) != len(all) {
		t.Errorf("got pages by resource %v, want 3 of pods and one of all others", pages)
	}
}

func isExact(e auditv1.Event) bool {
	return strings.Contains(e.RequestURI, "resourceVersionMatch=Exact")
}

// decides asks what becomes of a change of the dump and of the cluster: the answers are the same to the letter, and such as they can
// only be where all kinds have had their say.
func (r *rig) decides(t *testing.T, file, reader string) {
	dumped := r.mustRun(t, "simulate", "-f", file, "-f", "testdata/change.yaml", "-o", "json")
	live := r.mustRun(t, "simulate", "--live", "--kubeconfig", reader, "-f", "testdata/change.yaml", "-o", "json")
	if dumped.out != live.out {
		t.Errorf("of the dump: %s\nlive: %s\nwant the same", dumped.out, live.out)
	}
	var c change
	if err := json.Unmarshal([]byte(live.out), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Change) != 1 || len(c.Change[0].Pods) != 1 || c.Change[0].Pods[0].Node != "n2" || len(c.Preempted) != 1 || c.Preempted[0].Name != "low" {
		t.Errorf("got %s\nwant the pod of vip on n2, and low preempted", live.out)
	}
}

// namesRights takes rights away: the error names each with its verb.
func (r *rig) namesRights(t *testing.T, all []schema.GroupResource) {
	var some []schema.GroupResource
	for _, x := range all {
		if x.Resource != "priorityclasses" && x.Resource != "resourceslices" {
			some = append(some, x)
		}
	}
	poor := r.user(t, "poor", mayList(some)...)
	if got := r.run(t, "top", "nodes", "--kubeconfig", r.user(t, "stranger")); got.code != 1 ||
		!strings.Contains(got.told, `cannot list resource "nodes" in API group "" at the cluster scope`) {
		t.Errorf("top nodes of a user without rights: got exit code %d and %q, want 1 and the right that is missing", got.code, got.told)
	}
	const want = "the API server does not let this user list resourceslices, priorityclasses in all namespaces"
	for _, args := range []string{"snapshot", "simulate --live -f testdata/change.yaml"} {
		got := r.run(t, append(strings.Fields(args), "--kubeconfig", poor)...)
		if got.code != 1 || !strings.Contains(got.told, want) {
			t.Errorf("%s: got exit code %d and %q, want 1 and %q", args, got.code, got.told, want)
		}
		if json.Valid([]byte(got.out)) && got.out != "" {
			t.Errorf("%s: got JSON beside the error, which somebody may take for a dump", args)
		}
	}
}

// addsUp has the reader ask for requests: of nodes and pods, by name and by label.
func (r *rig) addsUp(t *testing.T, reader string) {
	for args, want := range map[string]string{
		"nodes --no-headers":                       "n2   2500m   63%   0   0%   1/110\nn1   0       0%    0   0%   0/110\n",
		"node n1 --no-headers":                     "n1   0   0%   0   0%   0/110\n",
		"pods -n shop -l app=low --no-headers":     "low   n2   2500m   0   <none>\n",
		"pods -A low -o jsonpath={.items[*].node}": "n2",
	} {
		if got := r.mustRun(t, append(strings.Fields("top "+args), "--kubeconfig", reader)...); got.out != want {
			t.Errorf("top %s: got %s\nwant %s", args, got.out, want)
		}
	}
	if got := r.mustRun(t, "top", "pods", "-o", "name", "--kubeconfig", reader); strings.Count(got.out, "\n") != pods {
		t.Errorf("got %d pods in the namespace default, want %d", strings.Count(got.out, "\n"), pods)
	}
	offered := r.mustRun(t, "__complete", "explain", "--patience", "1m", "--kubeconfig", reader, "-n", "shop", "deployment/")
	if want := "deployment/web\n"; !strings.HasPrefix(offered.out, want) {
		t.Errorf("got completions %q, want %q", offered.out, want)
	}
}
