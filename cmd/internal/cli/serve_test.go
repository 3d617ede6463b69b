package cli

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/shardsched/shardsched/cmd/internal/serving"
	"github.com/shardsched/shardsched/coordinator/standalone/api"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
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

// serveClients serves the client API, and returns what ends it.
func serveClients(t *testing.T, l net.Listener) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- service{}.serveAPI(ctx, l, api.New(api.Config{Self: &pb.LeaderRecord{}}), new(serving.Guard))
	}()
	return func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}

// TestTheClientAPIIsBounded opens more connections than there may be, and reads how many calls each may have.
func TestTheClientAPIIsBounded(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &held{Listener: inner}
	defer serveClients(t, l)()
	const most, all = 64, 192
	var conns []net.Conn
	for range all {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, http2.ClientPreface)
		http2.NewFramer(c, nil).WriteSettings()
		conns = append(conns, c)
	}
	for i, c := range conns {
		if i >= most {
			conns[i-most].Close()
		}
		frame, err := http2.NewFramer(nil, c).ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if calls, ok := frame.(*http2.SettingsFrame).Value(http2.SettingMaxConcurrentStreams); !ok || calls != 64 {
			t.Fatalf("got %d calls of a connection, want 64", calls)
		}
	}
	if got := l.most.Load(); got != most {
		t.Errorf("got %d connections of %d at a time, want %d", got, all, most)
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

// TestAHandshakeOfTheClientAPIEnds connects and says nothing, on a clock of the test's own.
func TestAHandshakeOfTheClientAPIEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := make(pipes)
		defer serveClients(t, l)()
		begun := time.Now()
		ours, theirs := net.Pipe()
		l <- theirs
		ours.SetReadDeadline(begun.Add(time.Hour))
		io.Copy(io.Discard, ours)
		if got := time.Since(begun); got != 10*time.Second {
			t.Errorf("got an end after %v, want 10 s", got)
		}
	})
}
