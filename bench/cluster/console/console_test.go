package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

func sorted(list []string) []string { slices.Sort(list); return list }

// nodes is how many the scene of most tests has.
const nodes = 900

// TestConsole looks at one scene in many ways.
func TestConsole(t *testing.T) {
	r := newRig(t)
	s, err := r.scene(r.ctx, nodes)
	r.must(err)
	t.Run("every page that is led to", func(t *testing.T) { r.with(t).crawl(s) })
	t.Run("live", func(t *testing.T) { r.with(t).live(s) })
	t.Run("hostile", func(t *testing.T) { r.with(t).hostile(s) })
}

// each is how many pages of a sort are looked at.
const each = 2

// crawl opens the first page, and what pages lead to, two of a sort. Each works, for everybody.
func (r *rig) crawl(s *server) {
	x := r.open(s.console)
	seen := map[string]int{}
	queued := map[string]bool{s.console: true}
	for todo := []string{s.console}; len(todo) > 0; todo = todo[1:] {
		at := todo[0]
		sort := sortOf(at)
		if seen[sort]++; seen[sort] > each {
			continue
		}
		x.Requests()
		x.to(at)
		weight := int64(0)
		for _, q := range x.Requests() {
			weight += q.Bytes
			if q.Status >= 400 {
				r.t.Errorf("%s: %s answers %d", at, q.URL, q.Status)
			}
		}
		if weight > 2<<20 {
			r.t.Errorf("%s: got %d bytes, want 2 MB at the most", at, weight)
		}
		name := strings.TrimPrefix(at, s.console)
		if seen[sort] == 1 {
			x.audit("/" + name)
		} else {
			x.clean("/" + name)
		}
		for _, link := range x.links() {
			if !queued[link] {
				queued[link] = true
				todo = append(todo, link)
			}
		}
	}
	r.t.Logf("%d pages, of %d sorts: %q", len(queued), len(seen), sorted(keys(seen)))
	if len(seen) < 13 {
		r.t.Errorf("got %d sorts of pages, want 13 or more: are links followed?", len(seen))
	}
}

func keys[V any](m map[string]V) (list []string) {
	for k := range m {
		list = append(list, k)
	}
	return list
}

// live has a page show what happens while somebody looks, without taking the focus away.
func (r *rig) live(s *server) {
	x := r.open(s.console)
	r.must(x.Click("nav a"))
	x.says("Overview")
	eval[bool](x, `(document.querySelector("nav li:nth-child(2) a").focus(), window.sameDocument = true)`)
	const fact = `document.querySelector(".facts").innerText`
	before := eval[string](x, fact)
	apply(r, s, build.Pod("seen-live").Namespace("shop").CPU("100m").Obj())
	x.until(fact + " !== " + quote(before))
	if !eval[bool](x, `window.sameDocument === true && document.activeElement === document.querySelector("nav li:nth-child(2) a")`) {
		r.t.Error("the page was loaded again, or the focus went elsewhere")
	}
}

// hostile are names and texts of somebody who may create pods: none runs, none breaks the layout.
func (r *rig) hostile(s *server) {
	script := `"><script>document.title='owned';alert(1)</script><img src=x onerror="alert(2)">`
	long := strings.Repeat("a-very-long-name-", 14) + "end.of.it.12345"
	long = long[:253]
	rtl := "\u202egnp.exe\u2066\u200f"
	pods := []*v1.Pod{
		build.Pod(long).Namespace("shop").Label("app", "hostile").CPU("1").NodeSelector("x", "y").Obj(),
		build.Pod("javascript.alert.1").Namespace("shop").Label("app", "hostile").CPU("1").Gate("example.com/" + strings.Repeat("g", 63)).Obj(),
		build.Pod("unfit").Namespace("shop").CPU("1").Request("example.com/"+strings.Repeat("r", 63), "1").Obj(),
	}
	for _, p := range pods {
		p.Annotations = map[string]string{"note": script, "rtl": rtl, "javascript": "javascript:alert(3)"}
		p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "TOKEN", Value: "secret-of-the-tenant"}}
		p.Spec.Containers[0].Image = "javascript:alert(4)"
		p.OwnerReferences = nil
	}
	apply(r, s, pods...)
	apply(r, s, build.Node("hostile").CPU("1").Label("example.com/x", strings.Repeat("x", 63)).Label("example.com/rack", "x_"+strings.Repeat("y", 60)).Obj())
	x := r.open(s.console)
	visited := 0
	for _, first := range x.links() {
		x.to(first)
		x.notOwned(first)
		for _, link := range x.links() {
			if strings.Contains(link, long[:40]) || strings.Contains(link, "javascript.alert") || strings.Contains(link, "hostile") {
				x.to(link)
				x.notOwned(link)
				visited++
			}
		}
	}
	// As a parameter of any page, too.
	for _, first := range x.links() {
		path, _, _ := strings.Cut(first, "?")
		for _, name := range []string{"namespace", "name", "node", "selector", "at"} {
			u := fmt.Sprintf("%s?%s=%s", path, name, escape(script+rtl+long))
			x.fails = true // a refusal is told by its status, of which the browser complains
			x.to(u)
			x.notOwned(u)
		}
	}
	if visited == 0 {
		r.t.Error("no page leads to the hostile pods and node")
	}
}

// notOwned wants no script of a text to have run, the page no wider than it is seen, and no secret on it.
func (x *tab) notOwned(at string) {
	x.r.t.Helper()
	at = at[:min(len(at), 120)]
	x.clean(at)
	state := eval[struct {
		Title       string
		Wide, Seen  int
		Html        string
		Handlers    int
		Javascripts int
	}](x, `({title: document.title, wide: document.documentElement.scrollWidth, seen: document.documentElement.clientWidth,
		html: document.documentElement.outerHTML, javascripts: document.querySelectorAll("a[href^='javascript:' i]").length,
		handlers: [...document.querySelectorAll("*")].filter(e => [...e.attributes].some(a => a.name.startsWith("on"))).length})`)
	if state.Title == "owned" || state.Handlers > 0 || state.Javascripts > 0 {
		x.r.t.Errorf("%s: got title %q, %d handlers, %d links that are scripts; want none of a text's", at, state.Title, state.Handlers, state.Javascripts)
	}
	if state.Wide > state.Seen {
		x.r.t.Errorf("%s: %d px wide, %d are seen", at, state.Wide, state.Seen)
	}
	if strings.Contains(state.Html, "secret-of-the-tenant") {
		x.r.t.Errorf("%s: shows the value of an environment variable", at)
	}
}
