package serving

import (
	"net"
	"net/http"
	"strings"
)

// RequireLoopback refuses requests whose Host is no loopback name or address: without TLS a page of another site, whose name has come to
// stand for 127.0.0.1, would else read what is served there.
func RequireLoopback(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r.Host) {
			http.Error(w, "this page is served to this machine alone: ask for it by localhost or 127.0.0.1", http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || net.ParseIP(host).IsLoopback()
}
