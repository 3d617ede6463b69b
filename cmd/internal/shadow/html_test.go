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

func render(t *testing.T, r *Report) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The page runs nothing and fetches nothing, by its own policy and by what it has.
func TestThePageNeedsNothingElse(t *testing.T) {
	page := render(t, example())
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
	for _, n := range parse(t, render(t, r)) {
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
	all := parse(t, render(t, example()))
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
	if len(got) != 1 || got[0].Theirs != "60.0,75.0 630.0,10.0" || got[0].Ours != "60.0,75.0 630.0,107.5" || got[0].High != "20" {
		t.Errorf("got %+v", got)
	}
	if got := charts(points[:1]); got[0].Ours != "60.0,10.0" {
		t.Errorf("one point: got %+v", got)
	}
}

func TestReportIsServedAsItStands(t *testing.T) {
	now, made := epoch, 0
	l := &live{now: func() time.Time { return now }, report: func() *Report { made++; return example() }}
	ask := func(method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		l.handlers()[path].ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w
	}
	if w := ask("GET", "/report"); w.Code != 200 || !bytes.Equal(w.Body.Bytes(), render(t, example())) || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("/report: got %d %v", w.Code, w.Header())
	}
	w := ask("GET", "/report.json")
	if r, err := ReadReport(w.Body); err != nil || !reflect.DeepEqual(r, example()) {
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
	if page := render(t, r); len(page) > 2<<20 {
		t.Errorf("the page has %d bytes, want 2 MiB at the most", len(page))
	}
}
