package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// start is a browser for a test, and an empty page.
func start(t *testing.T) *Page {
	t.Helper()
	b, err := Start(t.Context(), Need(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	p, err := b.Open(View{Width: 800, Height: 600})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

const good = `<!doctype html><html lang="en"><title>Good</title><style>:focus-visible{outline:2px solid}</style><main><h1>One</h1><h2>Two</h2><a href="#x">link</a>
<table><caption>Rows</caption><tr><th scope="col">A</th></tr><tr><td>1</td></tr></table><label>Name <input name="n"></label>
<canvas role="img" aria-label="nothing" width="10" height="10"></canvas></main></html>`

// TestAuditFindsFaults spoils a page that has none, in one way each.
func TestAuditFindsFaults(t *testing.T) {
	content := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self' 'sha256-nothing'; style-src 'unsafe-inline'; img-src *")
		if r.URL.Path == "/throws.js" {
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, `console.error("badly"); throw new Error("thrown")`)
			return
		}
		fmt.Fprint(w, content)
	}))
	defer server.Close()
	p := start(t)
	host := strings.TrimPrefix(server.URL, "http://")
	faults := func(t *testing.T) []string {
		t.Helper()
		p.Faults()
		p.Requests()
		if err := p.Go(server.URL); err != nil {
			t.Fatal(err)
		}
		list, err := p.Audit()
		if err != nil {
			t.Fatal(err)
		}
		keys, err := p.Keyboard()
		if err != nil {
			t.Fatal(err)
		}
		list = append(append(list, keys...), p.Faults()...)
		for _, outside := range Outside(p.Requests(), host) {
			list = append(list, "asked outside: "+outside)
		}
		return list
	}
	content = good
	if list := faults(t); len(list) > 0 {
		t.Errorf("a page without a fault: got %q", list)
	}
	for _, x := range []struct{ name, old, new, want string }{
		{"no language", ` lang="en"`, "", "no language"},
		{"no title", "<title>Good</title>", "", "no title"},
		{"no main", "main>", "div>", "want one <main>"},
		{"no first heading", "<h1>One</h1>", "", "want one <h1>"},
		{"a heading left out", "<h2>Two</h2>", "<h3>Two</h3>", "level 3 behind one of level 1"},
		{"no caption", "<caption>Rows</caption>", "", "without a caption"},
		{"no scope", ` scope="col"`, "", "without scope"},
		{"an unnamed drawing", ` role="img" aria-label="nothing"`, "", "a drawing without a text"},
		{"an unnamed link", ">link<", "><", "a link without a name"},
		{"an unnamed field", "Name <input", "<input", "a textbox without a name"},
		{"an image without a text", "<h2>", `<img src="/throws.js"><h2>`, "an image without a text"},
		{"grey on white", "<h2>", `<p style="color:#999">faint</p><h2>`, "contrast of 2.85"},
		{"grey by opacity", "<h2>", `<p style="opacity:.4">faint</p><h2>`, "contrast of"},
		{"too wide", "<h2>", `<div style="width:2000px">wide</div><h2>`, "px wide"},
		{"an id twice", "<h2>", `<i id="a">1</i><i id="a">2</i><h2>`, "two elements have the id a"},
		{"a label of nothing", "<h2>", `<label for="gone">x</label><h2>`, "for names gone"},
		{"focus unseen", "outline:2px solid", "outline:none", "the focus is not seen on"},
		{"a trap", "<h2>", `<button tabindex="0" style="pointer-events:none">1</button><div inert><a href="#y">y</a></div><h2>`, ""},
		{"an inline script", "<h2>", `<script>alert(1)</script><h2>`, "content security policy"},
		{"an exception", "<h2>", `<script src="/throws.js"></script><h2>`, "uncaught: Uncaught Error: thrown"},
		{"the console's errors", "<h2>", `<script src="/throws.js"></script><h2>`, "console: badly"},
		{"a request outside", "<h2>", `<img alt="x" src="http://127.0.0.1:1/x.png"><h2>`, "asked outside: http://127.0.0.1:1/x.png"},
	} {
		t.Run(x.name, func(t *testing.T) {
			content = strings.ReplaceAll(good, x.old, x.new)
			list := faults(t)
			if found := strings.Contains(strings.Join(list, "\n"), x.want); !found || (x.want == "") != (len(list) == 0) {
				t.Errorf("got %q, want %q", list, x.want)
			}
		})
	}
	t.Run("darkness", func(t *testing.T) {
		content = strings.ReplaceAll(good, "<style>", "<style>@media (prefers-color-scheme: dark){body{background:#222}}")
		if err := p.Scheme(true); err != nil {
			t.Fatal(err)
		}
		if list := faults(t); !strings.Contains(strings.Join(list, "\n"), "contrast of") {
			t.Errorf("got %q, want black on dark grey told", list)
		}
	})
}
