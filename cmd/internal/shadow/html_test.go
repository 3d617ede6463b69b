package shadow

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/net/html"
)

// parse reads a page as a browser does, and gives all of its elements.
func parse(t *testing.T, page []byte) (all []*html.Node) {
	t.Helper()
	root, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			all = append(all, n)
		}
	}
	return all
}

func attribute(n *html.Node, name string) (string, bool) {
	i := slices.IndexFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
	if i < 0 {
		return "", false
	}
	return n.Attr[i].Val, true
}

func textOf(n *html.Node) string {
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
		}
	}
	return b.String()
}

func draw(t *testing.T, r *Report) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The page runs nothing and fetches nothing, by its own policy and by what it has.
func TestThePageNeedsNothingElse(t *testing.T) {
	page := draw(t, example())
	style, policy := "", ""
	for _, n := range parse(t, page) {
		for _, a := range n.Attr {
			if slices.Contains([]string{"src", "href", "action", "data", "srcset", "style", "background", "poster"}, a.Key) || strings.HasPrefix(a.Key, "on") {
				t.Errorf("<%s %s=%q>", n.Data, a.Key, a.Val)
			}
		}
		switch n.Data {
		case "script", "link", "iframe", "img", "object", "embed", "form", "base":
			t.Errorf("<%s>", n.Data)
		case "style":
			style = textOf(n)
		case "meta":
			if what, _ := attribute(n, "http-equiv"); what == "Content-Security-Policy" {
				policy, _ = attribute(n, "content")
			}
		}
	}
	if strings.Contains(style, "url(") || strings.Contains(style, "@import") {
		t.Error("the style fetches something")
	}
	sum := sha256.Sum256([]byte(style))
	if want := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.HasPrefix(policy, want) {
		t.Errorf("policy: got %q, want %q first", policy, want)
	}
}

// Names and texts of a tenant are text, wherever they are shown.
func TestHostileNamesAreText(t *testing.T) {
	const hostile = `"><script>alert(1)</script><img src=x onerror=alert(1)>'` + "`</title></style>"
	r := example()
	fill(reflect.ValueOf(r).Elem(), hostile)
	found := 0
	for _, n := range parse(t, draw(t, r)) {
		if slices.Contains([]string{"script", "img", "iframe"}, n.Data) {
			t.Errorf("a name has become <%s>", n.Data)
		}
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "src" {
				t.Errorf("a name has become the attribute %s of <%s>", a.Key, n.Data)
			}
		}
		if n.Data == "th" && strings.Contains(textOf(n), hostile) {
			found++
		}
	}
	if found < 5 {
		t.Errorf("the name is shown in %d headings of rows, want it in those of at least 5 tables", found)
	}
}

// fill puts a text into every string of a value, but for a class, which is ours.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		if v.Type() != reflect.TypeFor[Class]() {
			v.SetString(text)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), text)
		}
	case reflect.Slice:
		for i := range v.Len() {
			fill(v.Index(i), text)
		}
	}
}

func TestThePageCanBeReadWithoutEyes(t *testing.T) {
	ids := map[string]bool{}
	all := parse(t, draw(t, example()))
	for _, n := range all {
		if id, ok := attribute(n, "id"); ok {
			if ids[id] {
				t.Errorf("two elements have the id %s", id)
			}
			ids[id] = true
		}
	}
	tables, drawings := 0, 0
	for _, n := range all {
		switch n.Data {
		case "table":
			tables++
			if c := n.FirstChild; c == nil || !slices.ContainsFunc(slices.Collect(n.ChildNodes()), func(c *html.Node) bool { return c.Data == "caption" }) {
				t.Errorf("a table has no caption: %.60q", textOf(n))
			}
		case "th":
			if scope, _ := attribute(n, "scope"); scope != "col" && scope != "row" {
				t.Errorf("heading %q has scope %q", textOf(n), scope)
			}
		case "svg":
			drawings++
			if alt, _ := attribute(n, "aria-label"); alt == "" {
				t.Error("a drawing has no text")
			}
		case "section":
			if by, _ := attribute(n, "aria-labelledby"); !ids[by] {
				t.Errorf("a section is labelled by %q, which is not there", by)
			}
		}
	}
	// Nodes in use, 3 of cpu and of memory each, skew, pending, minutes, preempted; and the regret.
	if tables != 9 || drawings != 12 {
		t.Errorf("got %d tables, %d drawings; want 9, 12", tables, drawings)
	}
}

func TestLinesAreDrawnToScale(t *testing.T) {
	points := []Point{{At: epoch, Theirs: World{NodesInUse: 10}, Ours: World{NodesInUse: 10}},
		{At: epoch.Add(time.Hour), Theirs: World{NodesInUse: 20}, Ours: World{NodesInUse: 5}}}
	got := charts(points)
	if len(got) != 1 || got[0].Theirs != "60.0,75.0 390.0,10.0" || got[0].Ours != "60.0,75.0 390.0,107.5" || got[0].High != "20" {
		t.Errorf("got %+v", got)
	}
	if got := charts(points[:1]); got[0].Ours != "60.0,10.0" {
		t.Errorf("one point: got %+v", got)
	}
}

// Bars are as long as their numbers, none is invisible, and there are none behind the last.
func TestBarsAreDrawnToScale(t *testing.T) {
	got := regretBars([]RegretBin{{0, 0, 1000}, {1, 1, 0}, {2, 3, 500}, {4, 7, 1}, {8, 15, 0}})
	var widths []int
	for _, b := range got.Bars {
		widths = append(widths, b.Width)
	}
	if !slices.Equal(widths, []int{longestBar, 0, longestBar / 2, 1}) || got.Alt != "Pods by regret. 0: 1,000 pods, 2-3: 500 pods, 4-7: 1 pod" {
		t.Errorf("got %v, %q", widths, got.Alt)
	}
	if got := regretBars([]RegretBin{{0, 0, 0}}); len(got.Bars) != 0 {
		t.Errorf("nothing was judged: got %v", got)
	}
}

func TestReportIsServedAsItStands(t *testing.T) {
	now, made := epoch, 0
	l := &Live{now: func() time.Time { return now }, report: func() *Report { made++; return example() }}
	registry := prometheus.NewRegistry()
	registry.MustRegister(l)
	ask := func(method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		l.Pages()[path].ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w
	}
	if w := ask("GET", "/report"); w.Code != 200 || !bytes.Equal(w.Body.Bytes(), draw(t, example())) || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("/report: got %d %v", w.Code, w.Header())
	}
	w := ask("GET", "/report.json")
	if r, err := readReport(w.Body); err != nil || !reflect.DeepEqual(r, example()) {
		t.Errorf("/report.json: got %+v, %v", r, err)
	}
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if w := ask("POST", "/report"); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: got %d", w.Code)
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { ask("GET", "/report") })
		all.Go(func() {
			if _, err := registry.Gather(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if made != 1 {
		t.Errorf("the report was made %d times within a second, want once", made)
	}
	now = now.Add(renderEvery)
	if ask("GET", "/report"); made != 2 {
		t.Errorf("a second later it was made %d times, want twice", made)
	}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewLive(example))
	const want = `# HELP shardsched_shadow_drift_ratio Share of the pods that are left out of what is compared, because the own world can not have them as the real cluster does.
# TYPE shardsched_shadow_drift_ratio gauge
shardsched_shadow_drift_ratio 0.021
# HELP shardsched_shadow_latency_seconds Quantiles since the beginning of how long pods waited for a node: theirs until they were bound, ours until it was decided.
# TYPE shardsched_shadow_latency_seconds gauge
shardsched_shadow_latency_seconds{quantile="0.5",scheduler="ours"} 0.002
shardsched_shadow_latency_seconds{quantile="0.5",scheduler="theirs"} 0.041
shardsched_shadow_latency_seconds{quantile="0.99",scheduler="ours"} 0.019
shardsched_shadow_latency_seconds{quantile="0.99",scheduler="theirs"} 3.1
# HELP shardsched_shadow_nodes_in_use Number of nodes with a pod that is neither of a DaemonSet nor static, really (theirs) and in the own world (ours).
# TYPE shardsched_shadow_nodes_in_use gauge
shardsched_shadow_nodes_in_use{scheduler="ours"} 1102
shardsched_shadow_nodes_in_use{scheduler="theirs"} 1187
# HELP shardsched_shadow_not_judged_pods_total Number of decisions of the other scheduler that could not be judged.
# TYPE shardsched_shadow_not_judged_pods_total counter
shardsched_shadow_not_judged_pods_total 3
# HELP shardsched_shadow_pending_pods Number of pods of judged profiles that wait for a node, really (theirs) and in the own world (ours).
# TYPE shardsched_shadow_pending_pods gauge
shardsched_shadow_pending_pods{scheduler="ours"} 2
shardsched_shadow_pending_pods{scheduler="theirs"} 2
# HELP shardsched_shadow_pods_total Number of decisions of the other scheduler that were judged, by what came of holding them against ours.
# TYPE shardsched_shadow_pods_total counter
shardsched_shadow_pods_total{class="lower"} 429
shardsched_shadow_pods_total{class="neither"} 0
shardsched_shadow_pods_total{class="only_ours"} 14
shardsched_shadow_pods_total{class="only_theirs"} 0
shardsched_shadow_pods_total{class="refused"} 0
shardsched_shadow_pods_total{class="same"} 60000
shardsched_shadow_pods_total{class="tie"} 877
shardsched_shadow_pods_total{class="victims"} 0
# HELP shardsched_shadow_ready 1 while nothing stands in the way of taking over, 0 otherwise.
# TYPE shardsched_shadow_ready gauge
shardsched_shadow_ready 1
# HELP shardsched_shadow_regret By how many points of score the best node was better than the one that the other scheduler chose.
# TYPE shardsched_shadow_regret histogram
shardsched_shadow_regret_bucket{le="0"} 60877
shardsched_shadow_regret_bucket{le="1"} 60977
shardsched_shadow_regret_bucket{le="3"} 61277
shardsched_shadow_regret_bucket{le="7"} 61277
shardsched_shadow_regret_bucket{le="15"} 61306
shardsched_shadow_regret_bucket{le="+Inf"} 61306
shardsched_shadow_regret_sum 1000
shardsched_shadow_regret_count 61306
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// A report of the largest size stays one that a browser opens.
func TestTheLargestPage(t *testing.T) {
	r := example()
	for i := range MaxPoints {
		p := r.Packing.Points[1]
		p.At = epoch.Add(time.Duration(i) * time.Minute)
		for len(p.Theirs.Resources) < maxResources {
			x := ResourceShare{fmt.Sprint("example.com/r", len(p.Theirs.Resources)), 0.5, 0.1, int64(i)}
			p.Theirs.Resources, p.Ours.Resources = append(slices.Clone(p.Theirs.Resources), x), append(slices.Clone(p.Ours.Resources), x)
		}
		r.Packing.Points = append(r.Packing.Points, p)
	}
	if page := draw(t, r); len(page) > 2<<20 {
		t.Errorf("the page has %d bytes, want 2 MiB at the most", len(page))
	}
}
