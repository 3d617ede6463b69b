package serving

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/shardsched/shardsched/cmd/internal/serving/authority"
)

// counted is a listener that counts its connections.
type counted struct {
	net.Listener
	n atomic.Int64
}

func (c *counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.n.Add(1)
	}
	return conn, err
}

// TestCertificatesAndAuthorityAreRotated changes the leaves, then the authority with an overlap, while a
// client asks all the time over connections that live for some milliseconds: no request fails. Then the old
// authority is taken away, and its certificates open nothing, on either side.
func TestCertificatesAndAuthorityAreRotated(t *testing.T) {
	before, after := authority.New(t), authority.New(t)
	serverDir, clientDir := t.TempDir(), t.TempDir()
	server := open(t, files(t, before, serverDir, "worker", 2), "c")
	client := open(t, files(t, before, clientDir, "coordinator", 3), "c")
	old := open(t, files(t, before, t.TempDir(), "coordinator", 4), "c")
	oldServer := open(t, files(t, before, t.TempDir(), "worker", 5), "c")
	server.age = 5 * time.Millisecond

	l, err := server.Listen("listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	counting := &counted{Listener: l}
	s := grpc.NewServer(server.ServerOptions()...)
	healthpb.RegisterHealthServer(s, health.NewServer())
	go s.Serve(counting)
	t.Cleanup(s.Stop)
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(client.ClientCredentials(Worker, "")))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	trust := func(pem ...[]byte) {
		for _, dir := range []string{serverDir, clientDir} {
			authority.Replace(t, dir+"/ca.crt", slices.Concat(pem...))
		}
	}
	leaves := func(a *authority.Authority) {
		a.IssueLeaf(serverDir, authority.Subject{URIs: []string{"spiffe://example.org/shardsched/c/worker"}})
		a.IssueLeaf(clientDir, authority.Subject{URIs: []string{"spiffe://example.org/shardsched/c/coordinator"}})
	}
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"at the start", func() {}},
		{"other leaves", func() { leaves(before) }},
		{"both authorities", func() { trust(before.PEM, after.PEM) }},
		{"leaves of the new authority", func() { leaves(after) }},
		{"the new authority alone", func() { trust(after.PEM) }},
	} {
		step.do()
		for first := counting.n.Load(); counting.n.Load() < first+5; {
			if _, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
				t.Fatalf("%s: want every request answered, got %v", step.name, err)
			}
		}
	}
	if err := askHealth(t, old.ClientCredentials(Worker, ""), l.Addr().String()); err == nil {
		t.Error("a client of the old authority: want it refused, got an answer")
	}
	if err := askHealth(t, client.ClientCredentials(Worker, ""), serveHealth(t, oldServer)); err == nil {
		t.Error("a server of the old authority: want it refused, got an answer")
	}
}

// TestAnOldHTTPConnectionEnds keeps a connection alive past its age.
func TestAnOldHTTPConnectionEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	counting, c := &counted{Listener: l}, testingclock.NewFakePassiveClock(time.Now())
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- serveHTTP(ctx, counting, &http.Server{Handler: http.NotFoundHandler()}, time.Hour, c)
	}()
	client := &http.Client{Transport: &http.Transport{}}
	for i, step := range []struct {
		after time.Duration
		want  int64 // connections so far
	}{{0, 1}, {59 * time.Minute, 1}, {time.Minute, 1}, {0, 2}, {0, 2}} {
		c.SetTime(c.Now().Add(step.after))
		answer, err := client.Get("http://" + l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		if got := counting.n.Load(); got != step.want {
			t.Errorf("request %d: want %d connections so far, got %d", i, step.want, got)
		}
	}
	client.CloseIdleConnections()
	cancel()
	if err := <-served; err != nil {
		t.Errorf("got %v at the end, want none", err)
	}
}
