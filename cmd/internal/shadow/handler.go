package shadow

import (
	"bytes"
	"net/http"
	"sync"
	"time"
)

// renderEvery is how long an answer is good for: however many look, a report is made no more often.
const renderEvery = time.Second

// live serves a report as it stands.
type live struct {
	report func() *Report
	now    func() time.Time

	mu         sync.Mutex
	at         time.Time // when html and json were made
	html, json []byte
}

// Handlers serves the report as it stands, at /report as a page and at /report.json.
func Handlers(report func() *Report) map[string]http.Handler {
	l := &live{report: report, now: time.Now}
	return l.handlers()
}

func (l *live) handlers() map[string]http.Handler {
	return map[string]http.Handler{
		"/report":      l.serve("text/html; charset=utf-8", func() []byte { return l.html }),
		"/report.json": l.serve("application/json", func() []byte { return l.json }),
	}
}

func (l *live) serve(kind string, which func() []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", policy()+"; frame-ancestors 'none'")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "a report can only be read: GET or HEAD is expected", http.StatusMethodNotAllowed)
			return
		}
		body, err := l.read(which)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		h.Set("Content-Type", kind)
		_, _ = w.Write(body) // a reader that is gone needs no answer
	})
}

// read renders what is older than it may be.
func (l *live) read(which func() []byte) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.now(); l.html == nil || now.Sub(l.at) >= renderEvery {
		r := l.report()
		var html, json bytes.Buffer
		if err := r.WriteHTML(&html); err != nil {
			return nil, err
		}
		if err := r.WriteJSON(&json); err != nil {
			return nil, err
		}
		l.at, l.html, l.json = now, html.Bytes(), json.Bytes()
	}
	return which(), nil
}
