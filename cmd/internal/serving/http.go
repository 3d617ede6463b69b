package serving

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
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
}

// Handler serves the endpoint.
func (e Endpoint) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(e.Gatherer, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", check(e.Healthy))
	mux.HandleFunc("GET /livez", check(e.Healthy))
	mux.HandleFunc("GET /readyz", check(e.Ready))
	if e.Profiling {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
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

// Serve answers on l until ctx ends, then lets answers under way finish for a
// second. With TLS it speaks HTTPS and asks for a client certificate.
func (e Endpoint) Serve(ctx context.Context, l net.Listener, t TLS) error {
	config, err := t.ServerConfig()
	if err != nil {
		return err
	}
	s := &http.Server{Handler: e.Handler(), TLSConfig: config, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan error, 1)
	go func() {
		if config != nil {
			done <- s.ServeTLS(l, "", "")
			return
		}
		done <- s.Serve(l)
	}()
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
