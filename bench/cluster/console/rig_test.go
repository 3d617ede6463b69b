package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/shardsched/shardsched/bench/internal/browser"
	"github.com/shardsched/shardsched/bench/internal/submit"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// wholeTest bounds a test.
const wholeTest = 8 * time.Minute

// rig is a bed and a browser.
type rig struct {
	*bed
	t       *testing.T
	ctx     context.Context
	browser *browser.Browser
}

func newRig(t *testing.T) *rig {
	t.Helper()
	program := browser.Need(t)
	ctx, cancel := context.WithTimeout(t.Context(), wholeTest)
	t.Cleanup(cancel)
	r := &rig{t: t, ctx: ctx}
	var err error
	if r.bed, err = newBed(ctx, t.ArtifactDir()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		for _, p := range r.Processes() {
			if t.Failed() {
				t.Logf("--- the last lines of %s (%v)\n%s", p.Name, p.Err(), strings.Join(p.Tail(30), "\n"))
			}
		}
	})
	if r.browser, err = browser.Start(ctx, program); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.browser.Close)
	return r
}

// with is the rig in a subtest.
func (r *rig) with(t *testing.T) *rig {
	sub := *r
	sub.t = t
	return &sub
}

// must ends the test with an error.
func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// apply applies objects at a server's client API.
func apply[T submit.Object](r *rig, s *server, list ...T) {
	r.t.Helper()
	req, err := submit.Request(list)
	r.must(err)
	client := submit.New(s.address)
	defer client.Close()
	_, err = client.Apply(r.ctx, req)
	r.must(err)
}

// tab is a page of the browser, of which nothing may be wrong when the test ends.
type tab struct {
	*browser.Page
	r     *rig
	hosts []string // whom it may ask
	// fails has it be a page of a server that refuses, or dies: requests that fail are no faults.
	fails bool
}

// open opens a page at an address.
func (r *rig) open(address string) *tab {
	r.t.Helper()
	return r.openTo(address, false)
}

func (r *rig) openTo(address string, fails bool) *tab {
	r.t.Helper()
	p, err := r.browser.Open(browser.View{Width: 1280, Height: 900})
	r.must(err)
	u, err := url.Parse(address)
	r.must(err)
	x := &tab{Page: p, r: r, hosts: []string{u.Host}, fails: fails}
	r.t.Cleanup(func() {
		x.clean("at the end")
		p.Close()
	})
	x.to(address)
	return x
}

func (x *tab) to(address string) {
	x.r.t.Helper()
	if err := x.Go(address); err != nil {
		x.r.t.Fatal(err)
	}
}

// clean wants no complaint of the browser, and nobody else asked, since the last call.
func (x *tab) clean(when string) {
	x.r.t.Helper()
	for _, f := range x.Faults() {
		if x.fails && (strings.HasPrefix(f, "network: ")) {
			continue
		}
		x.r.t.Errorf("%s: %s", when, f)
	}
	for _, o := range browser.Outside(x.Requests(), x.hosts...) {
		x.r.t.Errorf("%s: the page asks %s", when, o)
	}
}

func (x *tab) until(expression string) {
	x.r.t.Helper()
	x.r.must(x.Until(expression))
}

func (x *tab) text() string {
	x.r.t.Helper()
	return eval[string](x, "document.body.innerText")
}

// says waits until the page has a text.
func (x *tab) says(text string) {
	x.r.t.Helper()
	x.until("document.body.innerText.includes(" + quote(text) + ")")
}

func eval[T any](x *tab, expression string) T {
	x.r.t.Helper()
	out, err := browser.Eval[T](x.Page, expression)
	x.r.must(err)
	return out
}

func quote(s string) string {
	b, _ := json.Marshal(s) // a string
	return string(b)
}

// audit wants nothing wrong for anybody, light and dark, wide and narrow, with keys alone.
func (x *tab) audit(of string) {
	x.r.t.Helper()
	look := func(how string) {
		x.r.t.Helper()
		list, err := x.Audit()
		x.r.must(err)
		for _, wrong := range list {
			x.r.t.Errorf("%s, %s: %s", of, how, wrong)
		}
	}
	look("light")
	x.r.must(x.Scheme(true))
	look("dark")
	x.r.must(x.Scheme(false))
	x.r.must(x.Size(400, 900))
	look("narrow")
	x.r.must(x.Size(1280, 900))
	list, err := x.Keyboard()
	x.r.must(err)
	for _, wrong := range list {
		x.r.t.Errorf("%s: %s", of, wrong)
	}
	x.clean(of)
}

// links are the addresses of other pages of the console that the page leads to.
func (x *tab) links() []string {
	x.r.t.Helper()
	return eval[[]string](x, `[...new Set([...document.querySelectorAll("a[href]")].filter(a => a.origin === location.origin && !a.hasAttribute("download") &&
		a.pathname.startsWith("/console/") && !a.pathname.startsWith("/console/api/")).map(a => a.href.split("#")[0]))]`)
}

// sort is what tells a page from others: its path, and the names of its parameters.
func sortOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	var names []string
	for name := range u.Query() {
		names = append(names, name)
	}
	return fmt.Sprint(u.Path, sorted(names))
}

func escape(s string) string { return url.QueryEscape(s) }

// bound waits until a pod has a node.
func (r *rig) bound(s *server, namespace, name string) {
	r.t.Helper()
	client := submit.New(s.address)
	defer client.Close()
	for {
		var node string
		r.must(client.Do(r.ctx, func(ctx context.Context, c pb.SchedulerServiceClient) error {
			answer, err := c.Explain(ctx, &pb.ExplainRequest{Namespace: namespace, Name: name})
			node = answer.GetNode()
			return err
		}))
		if node != "" {
			return
		}
		time.Sleep(100 * time.Millisecond) // until it is looked at again
	}
}
