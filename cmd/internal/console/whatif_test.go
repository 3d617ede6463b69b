package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/shardsched/shardsched/cmd/internal/serving"
	"github.com/shardsched/shardsched/cmd/internal/whatif"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// asking is a console whose questions a test answers.
func asking(t *testing.T, answer func(context.Context, *Question) ([]byte, string, error)) *Console {
	t.Helper()
	c, err := New(Config{
		Conn:   (&serving.Guard{}).Within(&pb.SchedulerService_ServiceDesc, hostileScheduler(), 4<<20),
		WhatIf: &WhatIf{Answer: answer, Command: []string{"simulate", "-f", "a b.json"}, Copy: "A copy."},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// question sends a form; fields are names and values in turn.
func question(c http.Handler, site string, fields ...string) *httptest.ResponseRecorder {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for i := 0; i < len(fields); i += 2 {
		form.WriteField(fields[i], fields[i+1]) // into memory, where nothing fails
	}
	form.Close()
	r := httptest.NewRequest(http.MethodPost, Path+"whatif", &body)
	r.Header.Set("Content-Type", form.FormDataContentType())
	r.Header.Set("Sec-Fetch-Site", site)
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w
}

// TestQuestionsAreRead has each field come as the flags that simulate takes, and refuses what could be anything else.
func TestQuestionsAreRead(t *testing.T) {
	var asked []*Question
	c := asking(t, func(_ context.Context, q *Question) ([]byte, string, error) {
		asked = append(asked, q)
		return nil, "", status.Error(codes.InvalidArgument, "no answer for "+hostile)
	})
	w := question(c, "same-origin", "drain", "n1, n2\nnode/n3", "cordon", "n4", "remove", "n5", "add", "3=n6 2=node/n7", "scale", "Deployment/shop/web=10", "manifests", "kind: A", "file", "kind: B")
	want := "--drain=n1 --drain=n2 --drain=n3 --cordon=n4 --remove-node=n5 --add-nodes=3=node/n6 --add-nodes=2=node/n7 --scale=deployment/shop/web=10"
	if len(asked) != 1 || strings.Join(asked[0].Flags(), " ") != want || asked[0].Manifests != "kind: A\n---\nkind: B" {
		t.Fatalf("got %+v, want %s and both manifests", asked, want)
	}
	page := w.Body.String()
	if !strings.Contains(page, `shardsched simulate -f &#39;a b.json&#39; -f manifests.yaml `+want) || strings.Contains(page, "<script>alert") {
		t.Errorf("got %s, want the command line, and no script", page)
	}
	for _, x := range [][]string{
		{"drain", "--kubeconfig=/etc", "is no name of a node"}, {"drain", "Node_1", "is no name of a node"}, {"cordon", "a/b", "is no name of a node"},
		{"add", "n1", "expected COUNT=NAME"}, {"add", "2=/etc/passwd", "expected COUNT=NAME"}, {"add", "0=n1", "expected COUNT=NAME"}, {"add", "1000000=n1", "expected COUNT=NAME"},
		{"scale", "web=3", "expected KIND/NAMESPACE/NAME=REPLICAS"}, {"scale", "deployment/shop/web=-1", "expected KIND/NAMESPACE/NAME=REPLICAS"},
		{"drain", strings.Repeat("n ", maxNamed+1), "expected at most 1000 nodes and workloads, got 1001"},
		{"manifests", strings.Repeat("a", maxManifests+1), "manifests: expected at most 4194304 bytes, got 4194305"},
		{"nothing", "", "nothing is asked"},
	} {
		if page := question(c, "same-origin", x[0], x[1]).Body.String(); len(asked) != 1 || !strings.Contains(page, x[2]) {
			t.Errorf("%s=%.40s: want %q, got %.3000s", x[0], x[1], x[2], page)
		}
	}
	if w := question(c, "same-origin", "manifests", strings.Repeat("a", maxQuestion)); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "the form is too large") {
		t.Errorf("a large form: got %d %s, want it refused", w.Code, w.Body)
	}
	var many []string
	for i := range 70 {
		many = append(many, fmt.Sprint("field", i), "x")
	}
	if w := question(c, "same-origin", many...); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "too many fields") {
		t.Errorf("many fields: got %d %s, want it refused", w.Code, w.Body)
	}
	for _, site := range []string{"", "cross-site", "same-site", "none"} {
		if w := question(c, site, "drain", "n1"); w.Code != http.StatusForbidden || len(asked) != 1 {
			t.Errorf("from %q: got %d, want 403", site, w.Code)
		}
	}
	if w := ask(c, "GET", Path+"whatif?drain=n1&drain=n2"); w.Code != 200 || len(asked) != 1 || !strings.Contains(w.Body.String(), "n1\nn2</textarea>") {
		t.Errorf("a GET: got %d and %d questions, want the form filled in: %s", w.Code, len(asked), w.Body)
	}
	if w := ask(c, "POST", Path+"workers", "Sec-Fetch-Site", "same-origin"); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST to another page: got %d, want 405", w.Code)
	}
}

// TestAnAnswerIsShown shows hostile names as text, and who pays.
func TestAnAnswerIsShown(t *testing.T) {
	name := strings.ReplaceAll(hostile, `"`, `\"`)
	report := `{"placed":false,"change":[{"kind":"Deployment","namespace":"shop","name":"` + name + `","what":"evicted","wanted":{"before":4,"after":4},
		"placed":{"before":4,"after":3},"pending":{"before":0,"after":1},"onNodes":3,"reasons":[{"pods":1,"why":"` + name + `","help":"more nodes"}],
		"pods":[{"name":"` + name + `","was":"n1","node":""}]}],
		"preempted":[{"kind":"Deployment","namespace":"shop","name":"report","pods":["a"],"priority":0,"by":["StatefulSet shop/db"],"placedAgain":0,"pending":1}],
		"budgets":[{"namespace":"shop","name":"web","desired":4,"before":4,"lowest":3,"after":3}],"nodes":{"before":4,"after":4},"room":[]}`
	c := asking(t, func(context.Context, *Question) ([]byte, string, error) { return []byte(report), hostile, nil })
	w := question(c, "same-origin", "drain", "n1")
	shown := w.Body.String()
	for _, want := range []string{"No: 1 more pods pend than before.", "4 → 3", "more nodes", "Deployment shop/report", "PodDisruptionBudget shop/web", "3 of 4 pods are healthy"} {
		if !strings.Contains(shown, want) {
			t.Errorf("got %s, want %s", shown, want)
		}
	}
	if w.Code != 200 || strings.Contains(shown, "<script>alert") || strings.Contains(shown, "<img") {
		t.Errorf("got %d, want names as text: %s", w.Code, shown)
	}
	if w := question(c, "same-origin", "drain", "n1", "form", "json"); w.Body.String() != report || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("got %s, want the report as it is", w.Body)
	}
	if !slices.ContainsFunc(c.pages, func(p page) bool { return p.path == "whatif" && p.maxBody == maxQuestion }) {
		t.Error("the page takes a body without a bound")
	}
	c.config.WhatIf = nil
	if w := ask(c, "GET", Path+"whatif"); !strings.Contains(w.Body.String(), "has no copy of the cluster") || strings.Contains(w.Body.String(), "<form") {
		t.Errorf("without a copy: got %s, want that said, and no form", w.Body)
	}
}

// TestAnAnswerOfManyWorkloadsIsCut has more of all than the page shows: 2 MB hold it.
func TestAnAnswerOfManyWorkloadsIsCut(t *testing.T) {
	r := &whatif.Report{Room: []whatif.Room{}}
	for i := range 2 * shownRows {
		w := whatif.Workload{Key: whatif.Key{Kind: "Deployment", Namespace: "shop", Name: fmt.Sprint("web-", i)}, Reasons: []whatif.Reason{{Pods: 1, Why: "cpu"}}}
		w.Pods = append(w.Pods, whatif.Pod{Name: fmt.Sprint("pod-", i)})
		r.Change = append(r.Change, w)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	c := asking(t, func(context.Context, *Question) ([]byte, string, error) { return text, "", nil })
	page := question(c, "same-origin", "drain", "n1").Body.String()
	if len(page) > 2<<20 || strings.Count(page, "500 more are in the answer as JSON.") != 3 {
		t.Errorf("got %d bytes, want less, and what is left out of two tables and the lines: %.3000s", len(page), page)
	}
	if strings.Contains(page, "pod-100<") || !strings.Contains(page, "pod-99<") {
		t.Errorf("want the pods of %d workloads", shownWorkloads)
	}
}
