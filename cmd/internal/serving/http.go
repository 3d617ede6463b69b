package serving

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/utils/clock"
)

// Endpoint is a process's HTTP side.
type Endpoint struct {
	// Gatherer gives /metrics.
	Gatherer prometheus.Gatherer
	// Healthy and Ready answer /healthz (and /livez) and /readyz: nil means yes, an
	// error is shown to the asker. A nil function means yes.
	Healthy, Ready func() error
	// Profiling adds /debug/pprof.
	Profiling bool
	// Pages are for browsers, by paths that Callers knows; nil: none. Without TLS they answer to names of loopback alone.
	Pages map[string]http.Handler
}

// handlers are those of each path.
func (e Endpoint) handlers() map[string]http.Handler {
	h := map[string]http.Handler{
		"/metrics": promhttp.HandlerFor(e.Gatherer, promhttp.HandlerOpts{}),
		"/healthz": check(e.Healthy),
		"/livez":   check(e.Healthy),
		"/readyz":  check(e.Ready),
	}
	if e.Profiling {
		h["/debug/"] = profiles()
	}
	maps.Copy(h, e.Pages)
	return h
}

func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// Handler serves the endpoint to callers that the guard lets through.
func (e Endpoint) Handler(g *Guard) http.Handler {
	mux := http.NewServeMux()
	for path, h := range e.handlers() {
		if e.Pages[path] != nil && !g.Enabled() {
			h = RequireLoopback(h)
		}
		mux.Handle(path, g.handle(path, h))
	}
	return mux
}

func check(ask func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if ask != nil {
			if err := ask(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
		io.WriteString(w, "ok")
	}
}

// Probes serves /livez and /readyz, and nothing else, to everybody.
func (e Endpoint) Probes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", check(e.Healthy))
	mux.HandleFunc("GET /readyz", check(e.Ready))
	return mux
}

// ServeProbes answers probes on l until ctx ends, over plain HTTP.
func (e Endpoint) ServeProbes(ctx context.Context, l net.Listener) error {
	s := &http.Server{Handler: e.Probes(), ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: 4 << 10}
	s.SetKeepAlivesEnabled(false)
	return serveHTTP(ctx, l, s, 0, clock.RealClock{})
}

// Serve answers on l until ctx ends, then lets answers under way finish for a
// second. With TLS it speaks HTTPS and asks for a client certificate.
func (e Endpoint) Serve(ctx context.Context, l net.Listener, g *Guard) error {
	// Profiles take as long as they are asked to: no timeout of writing.
	s := &http.Server{
		Handler: e.Handler(g), TLSConfig: g.serverConfig(), ErrorLog: g.access.httpLog(),
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeaderBytes,
	}
	return serveHTTP(ctx, l, s, g.age, clock.RealClock{})
}

// ServeLocal answers on l, a loopback listener, by h until ctx ends.
func ServeLocal(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeaderBytes,
	}
	return serveHTTP(ctx, l, s, 0, clock.RealClock{})
}

// begunKey is where a request's context has the time of its connection's start.
type begunKey struct{}

// maxConnections is how many connections an HTTP listener has.
const maxConnections = 64

// newest closes the oldest of 64 open connections for one that comes: whoever holds many does not keep others out.
type newest struct {
	net.Listener
	mu   sync.Mutex
	open []*accepted // in order
}

type accepted struct {
	net.Conn
	from *newest
}

// Newest is l with 64 connections at the most: the oldest ends for one that comes.
func Newest(l net.Listener) net.Listener { return &newest{Listener: l} }

// Accept implements net.Listener.
func (l *newest) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	var oldest *accepted
	if len(l.open) == maxConnections {
		oldest = l.open[0]
	}
	a := &accepted{c, l}
	l.open = append(l.open, a)
	l.mu.Unlock()
	if oldest != nil {
		oldest.Close()
	}
	return a, nil
}

// Close implements net.Conn.
func (c *accepted) Close() error {
	c.from.mu.Lock()
	if i := slices.Index(c.from.open, c); i >= 0 {
		c.from.open = slices.Delete(c.from.open, i, i+1)
	}
	c.from.mu.Unlock()
	return c.Conn.Close()
}

// serveHTTP serves until ctx ends; a connection ends with the first answer past its age, 0: never.
func serveHTTP(ctx context.Context, l net.Listener, s *http.Server, age time.Duration, c clock.PassiveClock) error {
	l = Newest(l)
	s.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, begunKey{}, c.Now())
	}
	h := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if begun, ok := r.Context().Value(begunKey{}).(time.Time); ok && age > 0 && c.Since(begun) >= age {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
	done := make(chan error, 1)
	go func() {
		if s.TLSConfig != nil {
			done <- s.ServeTLS(l, "", "")
			return
		}
		done <- s.Serve(l)
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if s.Shutdown(bound) != nil {
			s.Close()
		}
		err = <-done
	}
	if err == nil || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve HTTP on %s: %w", l.Addr(), err)
}
