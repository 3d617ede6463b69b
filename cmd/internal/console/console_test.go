package console

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Hostile is a name that a tenant may try: no page may take it for markup.
const hostile = `"><script>alert(1)</script><img src=x onerror=alert(2)>'{{.}}`

func hostileScheduler() *scheduler {
	return &scheduler{
		summary: &pb.Summary{
			Nodes: 3, PodsPending: 7, Workers: []*pb.WorkerStatus{{Id: hostile, Quarantine: hostile}},
			PendingReasons: []*pb.PendingReason{{Reason: hostile, Pods: 7, Example: hostile}},
			Utilisation:    []*pb.Utilisation{{Resource: hostile, Allocatable: 10, Requested: 5}},
		},
		leader:  &pb.GetLeaderResponse{Leader: &pb.LeaderRecord{Id: hostile, Address: hostile}},
		workers: []*pb.WorkerStatus{{Id: hostile, Address: hostile, Quarantine: hostile, Version: hostile}},
		shards:  []*pb.ShardStatus{{Shard: 1, Workers: []string{hostile}, Held: []uint64{3}, Generation: 5}},
		plugins: &pb.ListPluginsResponse{
			Uses: []*pb.PluginUse{{Profile: hostile, Plugin: "CELFilter", ExtensionPoint: "Filter", Calls: 2, RowsIn: 10, RowsOut: 4,
				Took: durationpb.New(3e6), Expressions: []string{hostile}}},
			Plugins:   []*pb.PluginLatency{{Plugin: hostile, ExtensionPoint: "Filter", Latency: &pb.Quantiles{Count: 2}}},
			Extenders: []*pb.ExtenderUse{{Extender: hostile, Verb: "filter", Failures: 3, Latency: &pb.Quantiles{Total: durationpb.New(9e9)}}},
		},
		configuration: &pb.GetConfigurationResponse{
			Profiles:    []*pb.ProfileConfiguration{{Name: hostile, NotEvaluated: []string{hostile}}},
			Differences: []*pb.ConfigurationDifference{{Field: hostile, Value: hostile}},
			NoEffect:    []string{hostile}, Departures: []string{hostile}, Extenders: []string{hostile},
			Lacking: []*pb.LackingPods{{What: hostile, Pods: 1, Example: hostile}},
		},
		podGroups: &pb.ListPodGroupsResponse{
			PodGroups: []*pb.PodGroupStatus{hostilePodGroup()}, ContinueToken: hostile,
			States: []*pb.PodGroupStateCount{{State: hostile, PodGroups: 1}},
		},
		podGroup: &pb.ExplainPodGroupResponse{
			Status: hostilePodGroup(), TopologyKey: hostile, PreferredTopology: []string{hostile}, SliceSize: 2, SliceTopology: hostile,
			Notes: []string{hostile}, ContinueToken: hostile, Members: []*pb.PodGroupMember{
				{Name: hostile, Node: hostile, State: hostile, Queue: hostile, Message: hostile, Nominated: hostile, Domain: hostile},
			},
		},
		pending: hostilePending(), decisions: hostileDecisions(), explanation: hostileExplanation(),
		traces: &pb.ListTracesResponse{Traces: []*pb.Trace{{Id: hostile, Spans: []*pb.Span{
			{Id: "1", Name: hostile, Service: hostile, Attributes: []string{hostile}, Error: hostile}, {Id: "2", Parent: "1", Name: hostile},
			{Id: "3", Parent: "4"}, {Id: "4", Parent: "3"}, {Id: "5", Parent: "5"},
		}}}},
		nodeMap: &pb.GetNodeMapResponse{
			Nodes: 1, Groups: []*pb.NodeGroup{{Values: []string{hostile}, Nodes: 1}}, Cells: []byte{0, 128}, Note: hostile,
			Classes: []*pb.NodeClass{{Text: hostile, Nodes: 1}}, Plugins: []string{hostile},
		},
		fragmentation: &pb.GetFragmentationResponse{Resources: []*pb.ResourceFragmentation{{Resource: hostile, Allocatable: 1, LargestNode: hostile}}},
		node: &pb.ExplainNodeResponse{
			Node: hostile, KeepsOff: []string{hostile}, Stranded: []string{hostile}, Labels: []string{hostile}, Taints: []string{hostile},
			Amounts: []*pb.NodeAmount{{Resource: hostile, Allocatable: 1}}, OnNode: []*pb.NodePod{{Namespace: hostile, Name: hostile, Controller: hostile}},
		},
		devices: []*pb.DeviceStatus{{Node: hostile, Driver: hostile, Pool: hostile, Device: hostile, InUseBy: []string{hostile}}},
	}
}

// pageOf is the address of a page, of whatever it may be asked for.
func pageOf(p page) string {
	return Path + p.path + "?worker=%22%3E%3Cscript%3E&namespace=a&name=b&kind=Job&workload=j&a=n1&b=n2&node=n"
}

// elements calls f for each element of a page.
func elements(t *testing.T, page string, f func(*html.Node)) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			f(n)
		}
	}
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// TestNoPageRunsWhatANameHolds renders every page with hostile names: the policy forbids inline code, and there is none.
func TestNoPageRunsWhatANameHolds(t *testing.T) {
	c := newConsole(t, hostileScheduler())
	for _, p := range c.pages {
		w := ask(c, "GET", pageOf(p))
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"} {
			if got := w.Header().Get("Content-Security-Policy"); !strings.Contains(got, want) || strings.Contains(got, "unsafe") {
				t.Errorf("%s: got the policy %q, want it to have %q", p.path, got, want)
			}
		}
		shown := false
		elements(t, w.Body.String(), func(n *html.Node) {
			switch n.Data {
			case "script":
				if src := attribute(n, "src"); !strings.HasPrefix(src, "assets/") || n.FirstChild != nil {
					t.Errorf("%s: got a script %q, want only those of the console", p.path, src)
				}
			case "img", "iframe", "object", "style", "base":
				t.Errorf("%s: got an element %s", p.path, n.Data)
			}
			for _, a := range n.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" || strings.HasPrefix(strings.ToLower(a.Val), "javascript:") {
					t.Errorf("%s: got the attribute %s=%q", p.path, a.Key, a.Val)
				}
			}
			if n.FirstChild != nil && n.FirstChild.Type == html.TextNode && strings.Contains(n.FirstChild.Data, hostile) {
				shown = true
			}
		})
		if w.Code == http.StatusOK && !shown {
			t.Errorf("%s: the hostile name is not shown as it is", p.path)
		}
	}
}

// TestPagesCanBeReadByAll holds what a screen reader and a keyboard need.
func TestPagesCanBeReadByAll(t *testing.T) {
	c := newConsole(t, hostileScheduler())
	for _, p := range append(c.pages, page{path: "nothing"}) {
		seen := map[string]int{}
		here := 0
		ids := map[string]bool{}
		text := ask(c, "GET", pageOf(p)).Body.String()
		elements(t, text, func(n *html.Node) {
			seen[n.Data]++
			if attribute(n, "aria-current") == "page" {
				here++
			}
			if id := attribute(n, "id"); id != "" {
				if ids[id] {
					t.Errorf("%s: the id %q is there twice", p.path, id)
				}
				ids[id] = true
			}
			switch n.Data {
			case "table":
				if first := firstElement(n); first == nil || first.Data != "caption" {
					t.Errorf("%s: a table without a caption", p.path)
				}
			case "th":
				if attribute(n, "scope") == "" {
					t.Errorf("%s: a heading cell without a scope", p.path)
				}
			case "input", "select", "textarea":
				named := attribute(n, "id") != "" && strings.Contains(text, `<label for="`+attribute(n, "id")+`"`)
				if n.Parent.Data != "label" && attribute(n, "aria-label") == "" && !named {
					t.Errorf("%s: a field without a label", p.path)
				}
			case "html":
				if attribute(n, "lang") != "en" {
					t.Errorf("%s: the page does not say its language", p.path)
				}
			}
		})
		for _, want := range []string{"main", "nav", "header", "footer", "h1"} {
			if seen[want] != 1 {
				t.Errorf("%s: got %d elements %s, want one", p.path, seen[want], want)
			}
		}
		if !p.hidden && p.path != "nothing" && here != 1 {
			t.Errorf("%s: got %d marks of the page in the menu, want one", p.path, here)
		}
	}
}

func firstElement(n *html.Node) *html.Node {
	for child := range n.ChildNodes() {
		if child.Type == html.ElementNode {
			return child
		}
	}
	return nil
}

// TestLinksLeadSomewhere follows every link of every page, and loads its assets.
func TestLinksLeadSomewhere(t *testing.T) {
	s := hostileScheduler()
	s.explained = nil
	c := newConsole(t, s)
	for _, p := range c.pages {
		elements(t, ask(c, "GET", pageOf(p)).Body.String(), func(n *html.Node) {
			to := attribute(n, "href")
			if n.Data == "script" {
				to = attribute(n, "src")
			}
			if to == "" || strings.HasPrefix(to, "#") {
				return
			}
			if strings.HasPrefix(to, "/") || strings.Contains(to, "://") {
				t.Errorf("%s: got an address %q, want one relative to %s", p.path, to, Path)
				return
			}
			to, _, _ = strings.Cut(strings.TrimPrefix(to, "./"), "#")
			// A call that the test's scheduler does not make is there, too.
			if w := ask(c, "GET", Path+to); w.Code != http.StatusOK && w.Code != http.StatusNotImplemented {
				t.Errorf("%s: %s: got %d, want an answer", p.path, to, w.Code)
			}
		})
	}
}

func TestOnlyReadsAreServed(t *testing.T) {
	s := hostileScheduler()
	c := newConsole(t, s)
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"} {
		for _, path := range []string{"", "workers", "api/v1/GetSummary", "nothing"} {
			w := ask(c, method, Path+path, "Sec-Fetch-Site", "same-origin")
			if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: got %d, want 405", method, path, w.Code)
			}
		}
	}
	if got := s.calls.Load(); got != 0 {
		t.Errorf("got %d calls, want none", got)
	}
	w := ask(c, "HEAD", Path)
	if w.Code != http.StatusOK || w.Body.Len() != 0 || w.Header().Get("Content-Length") == "" {
		t.Errorf("HEAD: got %d with %d bytes, want headers alone", w.Code, w.Body.Len())
	}
}

// A page that takes a body takes it from the console's own pages, and no more than it says.
func TestABodyComesFromTheConsoleAlone(t *testing.T) {
	c := newConsole(t, &scheduler{})
	c.pages = append(c.pages, page{path: "takes", maxBody: 4, show: func(v *visit) (any, error) {
		_, err := io.ReadAll(v.request.Body)
		if err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		return nil, status.Error(codes.NotFound, "taken")
	}})
	post := func(body, from string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", Path+"takes", strings.NewReader(body))
		r.Header.Set("Sec-Fetch-Site", from)
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		return w
	}
	for _, test := range []struct {
		body, from string
		want       int
	}{{"abcd", "same-origin", 404}, {"abcde", "same-origin", 400}, {"a", "cross-site", 403}, {"a", "same-site", 403}, {"a", "none", 403}, {"a", "", 403}} {
		if w := post(test.body, test.from); w.Code != test.want {
			t.Errorf("%q from %q: got %d, want %d", test.body, test.from, w.Code, test.want)
		}
	}
}

func TestAStandbyLeadsToTheLeader(t *testing.T) {
	refusal := func(n *pb.NotLeader) error {
		s, err := status.New(codes.FailedPrecondition, "not the leader").WithDetails(n)
		if err != nil {
			t.Fatal(err)
		}
		return s.Err()
	}
	leads := &pb.NotLeader{Leader: &pb.LeaderRecord{Id: "b", Address: "b:7450", Console: "https://b:10259/console/"}}
	for _, test := range []struct {
		err       error
		page, api int
		want      []string
	}{
		{refusal(leads), 503, 421, []string{"stands by", `href="https://b:10259/console/"`}},
		{refusal(&pb.NotLeader{Leader: &pb.LeaderRecord{Id: "b", Address: "b:7450"}}), 503, 421, []string{"stands by", "b:7450"}},
		{refusal(&pb.NotLeader{Leader: &pb.LeaderRecord{Console: "javascript:alert(1)"}}), 503, 421, []string{`href="#ZgotmplZ"`}},
		{refusal(&pb.NotLeader{}), 503, 503, []string{"No coordinator leads now"}},
		{status.Error(codes.Unavailable, "no route to host"), 503, 503, []string{"does not answer", "no route to host"}},
		{status.Error(codes.ResourceExhausted, "busy"), 429, 429, []string{"is busy"}},
		{status.Error(codes.Unimplemented, "unknown"), 501, 501, []string{"is older than this console"}},
		{errors.New("a bug"), 500, 500, []string{"a bug"}},
	} {
		c := newConsole(t, &scheduler{err: test.err})
		for _, path := range []string{"", "workers"} {
			w := ask(c, "GET", Path+path)
			if w.Code != test.page {
				t.Errorf("%v: %q: got %d, want %d", test.err, path, w.Code, test.page)
			}
			for _, want := range test.want {
				if !strings.Contains(w.Body.String(), want) {
					t.Errorf("%v: %q: got %s, want %q in it", test.err, path, w.Body, want)
				}
			}
		}
		w := ask(c, "GET", Path+"api/v1/GetSummary")
		if w.Code != test.api {
			t.Errorf("%v: API: got %d, want %d", test.err, w.Code, test.api)
		}
		if test.err != nil && test.api == 421 && !strings.Contains(w.Body.String(), `"leader":`) {
			t.Errorf("%v: API: got %s, want the leader in it", test.err, w.Body)
		}
	}
}

func TestAssetsAreKeptByTheirContent(t *testing.T) {
	c := newConsole(t, &scheduler{})
	for name, a := range c.assets {
		to, err := c.assets.url(name)
		if err != nil {
			t.Fatal(err)
		}
		w := ask(c, "GET", Path+to)
		if w.Code != 200 || !bytes.Equal(w.Body.Bytes(), a.content) || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("%s: got %d, %v", name, w.Code, w.Header())
		}
		packed := ask(c, "GET", Path+to, "Accept-Encoding", "br, gzip")
		if got := unpack(t, packed); !bytes.Equal(got, a.content) {
			t.Errorf("%s: packed it is something else", name)
		}
		if w := ask(c, "GET", Path+to, "If-None-Match", w.Header().Get("ETag")); w.Code != http.StatusNotModified || w.Body.Len() > 0 {
			t.Errorf("%s: got %d for what is known, want 304", name, w.Code)
		}
		if w := ask(c, "GET", Path+"assets/0123/"+name); w.Code != http.StatusNotFound {
			t.Errorf("%s: got %d for another content, want 404", name, w.Code)
		}
	}
	if w := ask(c, "GET", Path+"assets/x/../../console.go"); w.Code == http.StatusOK {
		t.Errorf("got a file that is no asset")
	}
}

func unpack(t *testing.T, w *httptest.ResponseRecorder) []byte {
	t.Helper()
	if got := w.Header().Get("Content-Encoding"); got != "gzip" {
		t.Fatalf("got the encoding %q, want gzip", got)
	}
	z, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestLargeAnswersArePacked(t *testing.T) {
	c := newConsole(t, hostileScheduler())
	plain := ask(c, "GET", Path+"workers")
	if plain.Header().Get("Content-Encoding") != "" || plain.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("got %v, want a plain page that is not stored", plain.Header())
	}
	if got := unpack(t, ask(c, "GET", Path+"workers", "Accept-Encoding", "gzip;q=0.5")); !bytes.Equal(got, plain.Body.Bytes()) {
		t.Errorf("packed the page is another")
	}
	for _, refuses := range []string{"", "br", "gzip;q=0", "gzip; q=0.000", "x-gzip"} {
		if w := ask(c, "GET", Path+"workers", "Accept-Encoding", refuses); w.Header().Get("Content-Encoding") != "" {
			t.Errorf("%q: got a packed page", refuses)
		}
	}
}

// TestUPlotIsAsPublished holds the embedded library to the package that npm serves: its integrity as the registry tells it, and its files.
func TestUPlotIsAsPublished(t *testing.T) {
	const integrity = "KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw=="
	published, err := os.ReadFile("testdata/uplot-1.6.32.tgz")
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha512.Sum512(published); base64.StdEncoding.EncodeToString(sum[:]) != integrity {
		t.Errorf("testdata: got another package than npm's uplot 1.6.32")
	}
	files := map[string]string{"package/dist/uPlot.iife.min.js": "uplot.js", "package/dist/uPlot.min.css": "uplot.css", "package/LICENSE": "uplot.LICENSE"}
	z, err := gzip.NewReader(bytes.NewReader(published))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name, ok := files[h.Name]
		if !ok {
			continue
		}
		delete(files, h.Name)
		want, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := assetFiles.ReadFile("assets/" + name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("assets/%s: got something else than %s of the package: %v", name, h.Name, err)
		}
	}
	if len(files) > 0 {
		t.Errorf("the package lacks %v", files)
	}
}

// Colours are told apart in light and in dark: 4.5 to 1 for text, as WCAG 2 wants it.
func TestColoursHaveContrast(t *testing.T) {
	style, err := assetFiles.ReadFile("assets/style.css")
	if err != nil {
		t.Fatal(err)
	}
	themes := regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllSubmatch(style, -1)
	if len(themes) != 2 {
		t.Fatalf("got %d themes, want light and dark", len(themes))
	}
	for _, theme := range themes {
		colours := map[string]float64{}
		for _, m := range regexp.MustCompile(`--([a-z0-9-]+): #([0-9a-f]{6})`).FindAllSubmatch(theme[1], -1) {
			colours[string(m[1])] = luminance(string(m[2]))
		}
		for _, name := range []string{"text", "soft", "link", "focus", "good", "warn", "bad", "chart-1", "chart-2"} {
			for _, back := range []string{"back", "raised"} {
				ls := []float64{colours[name], colours[back]}
				slices.Sort(ls)
				if got := (ls[1] + .05) / (ls[0] + .05); got < 4.5 {
					t.Errorf("%s on %s: got a contrast of %.2f, want 4.5", name, back, got)
				}
			}
		}
	}
}
