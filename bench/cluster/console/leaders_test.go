package main

import (
	"context"
	"net/url"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/shardsched/shardsched/bench/internal/process"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// etcd is one in this process, for as long as the test.
func etcd(t *testing.T) (endpoint string) {
	t.Helper()
	e := embed.NewConfig()
	e.Dir, e.LogLevel, e.LogOutputs = t.TempDir(), "panic", []string{"stderr"}
	clients, err := url.Parse("http://" + process.MustFreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	peers := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	e.ListenClientUrls, e.AdvertiseClientUrls = []url.URL{*clients}, []url.URL{*clients}
	e.ListenPeerUrls, e.AdvertisePeerUrls = peers, peers
	e.InitialCluster = e.InitialClusterFromName(e.Name)
	server, err := embed.StartEtcd(e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	<-server.Server.ReadyNotify()
	return clients.String()
}

// TestLeaders looks at a coordinator that leads, and at one that follows, while the first dies and comes back.
func TestLeaders(t *testing.T) {
	store := etcd(t) // ends after the coordinators
	r := newRig(t)
	start := func(name, clients, pages string) *server {
		t.Helper()
		p, err := r.Start(name, r.program, "coordinator", "--standalone", "--etcd-endpoints", store, "--listen", clients, "--http-listen", pages,
			"--leader-elect-lease-duration", (3 * time.Second).String())
		r.must(err)
		s := &server{Process: p, console: "http://" + pages + "/console/"}
		s.address, err = p.Line(r.ctx, "coordinator serves clients on ")
		r.must(err)
		return s
	}
	leads := func(s *server) {
		t.Helper()
		ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
		defer cancel()
		_, err := s.LineWith(ctx, "Became leader")
		r.must(err)
	}
	firstAt := [2]string{process.MustFreeAddress(t), process.MustFreeAddress(t)}
	first := start("first", firstAt[0], firstAt[1])
	leads(first)
	second := start("second", process.MustFreeAddress(t), process.MustFreeAddress(t))
	apply(r, first, build.Node("n1").CPU("4").Memory("8Gi").Obj())

	leader, follower := r.open(first.console), r.openTo(second.console, true)
	leader.says("Leader")
	// A follower leads to the leader.
	follower.says("leader's console")
	if at := eval[string](follower, `[...document.querySelectorAll("main a")].find(a => a.textContent.includes("leader's console")).href`); at != first.console {
		t.Errorf("the follower leads to %q, want %q", at, first.console)
	}
	follower.audit("the follower's page")
	other := r.openTo(second.console, true)
	other.hosts = append(other.hosts, firstAt[1])
	r.must(other.Click("main a"))
	other.says("Pods pending")
	if at := eval[string](other, "location.href"); at != first.console {
		t.Errorf("the link leads to %q, want %q", at, first.console)
	}

	// It dies while somebody looks: its page says so, and the follower's becomes that of the leader by itself.
	for _, x := range []*tab{leader, follower, other} {
		x.fails = true
		eval[bool](x, "window.sameDocument = true")
	}
	first.Kill()
	leader.until(`document.getElementById("status").textContent.includes("Not reachable since")`)
	follower.says("Pods pending")
	if !eval[bool](follower, "window.sameDocument === true") {
		t.Error("the follower's page was loaded again")
	}
	// Once it is back, it follows, and its page leads on.
	start("first", firstAt[0], firstAt[1])
	leader.says("leader's console")
	leader.until(`!document.getElementById("status").textContent.includes("Not reachable")`)
	if !eval[bool](leader, "window.sameDocument === true") {
		t.Error("the page of who had led was loaded again")
	}
}
