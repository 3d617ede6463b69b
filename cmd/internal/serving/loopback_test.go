package serving

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// A page of another site, whose name has come to stand for 127.0.0.1, reads no page.
func TestOnlyThisMachineAsksALoopbackListener(t *testing.T) {
	page := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	h := Endpoint{Gatherer: prometheus.NewRegistry(), Pages: map[string]http.Handler{"/console/": page, "/report": page}}.Handler(&Guard{})
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST:7451": 200, "127.0.0.1:7451": 200, "127.8.8.8": 200, "[::1]:7451": 200, "[::1]": 200, "a.localhost:80": 200, "localhost.": 200,
		"evil.example": 421, "evil.example:7451": 421, "10.0.0.1:7451": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example": 421, "": 421, "[fe80::1]:80": 421, "0.0.0.0:7451": 421,
	} {
		for _, path := range []string{"/console/", "/report"} {
			r := httptest.NewRequest("GET", path, nil)
			r.Host = host
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("Host %q, %s: got %d, want %d", host, path, w.Code, want)
			}
		}
	}
}
