package serving

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// held is a listener that counts its open connections.
type held struct {
	net.Listener
	open, most atomic.Int64
}

func (l *held) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.most.Store(max(l.most.Load(), l.open.Add(1)))
	return &heldConn{Conn: c, of: l}, nil
}

type heldConn struct {
	net.Conn
	of   *held
	once sync.Once
}

func (c *heldConn) Close() error {
	c.once.Do(func() { c.of.open.Add(-1) })
	return c.Conn.Close()
}

// TestConnectionsAreBounded opens connections that say nothing, and asks.
func TestConnectionsAreBounded(t *testing.T) {
	e := Endpoint{Gatherer: prometheus.NewRegistry()}
	for name, serve := range map[string]func(context.Context, net.Listener) error{
		"probes": e.ServeProbes,
		"all":    func(ctx context.Context, l net.Listener) error { return e.Serve(ctx, l, &Guard{}) },
	} {
		t.Run(name, func(t *testing.T) {
			inner, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			l := &held{Listener: inner}
			ctx, end := context.WithCancel(t.Context())
			served := make(chan error, 1)
			go func() { served <- serve(ctx, l) }()
			for range 3 * maxConnections {
				c, err := net.Dial("tcp", inner.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
			}
			answer, err := http.Get("http://" + inner.Addr().String() + "/livez")
			if err != nil {
				t.Fatalf("whoever comes last: %v", err)
			}
			answer.Body.Close()
			// One more than there may be, until the oldest is closed.
			if got := l.most.Load(); got > maxConnections+1 {
				t.Errorf("got %d connections, want %d at the most", got, maxConnections)
			}
			http.DefaultClient.CloseIdleConnections()
			end()
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
	}
}

// pipes is a listener of connections within the process.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error { close(p); return nil }
func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

func TestConnectionsThatHaveEndedMakeRoom(t *testing.T) {
	p := make(pipes, 1)
	l := &newest{Listener: p}
	accept := func() net.Conn {
		c, _ := net.Pipe()
		p <- c
		a, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	long := accept()
	for range 2 * maxConnections {
		accept().Close()
	}
	if len(l.open) != 1 || l.open[0] != long {
		t.Errorf("got %d open connections after many short ones, want the long one", len(l.open))
	}
}

// TestConnectionsEnd asks once over a connection and waits for its end, on a clock of the test's own.
func TestConnectionsEnd(t *testing.T) {
	e := Endpoint{Gatherer: prometheus.NewRegistry()}
	for _, test := range []struct {
		name  string
		serve func(context.Context, net.Listener) error
		lives time.Duration
	}{
		{"probes", e.ServeProbes, 0},
		{"all", func(ctx context.Context, l net.Listener) error { return e.Serve(ctx, l, &Guard{}) }, 2 * time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := make(pipes)
				ctx, end := context.WithCancel(t.Context())
				served := make(chan error, 1)
				go func() { served <- test.serve(ctx, l) }()
				ours, theirs := net.Pipe()
				l <- theirs
				begun := time.Now()
				if _, err := io.WriteString(ours, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				in := bufio.NewReader(ours)
				if answer, err := http.ReadResponse(in, nil); err != nil || answer.StatusCode != 200 {
					t.Errorf("got %v, %v, want an answer", answer, err)
				}
				ours.SetReadDeadline(begun.Add(time.Hour))
				if _, err := io.Copy(io.Discard, in); err != nil {
					t.Errorf("got %v, want the connection's end", err)
				}
				if got := time.Since(begun); got != test.lives {
					t.Errorf("got an end after %v, want %v", got, test.lives)
				}
				end()
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
