package cli

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// The credentials of the API server reach a scheduler of the same authority, and nobody else.
func TestSchedulerSecondsAreReadFromOneOfTheSameAuthority(t *testing.T) {
	var tokens []string
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens = append(tokens, r.Header.Get("Authorization"))
		if r.URL.Path != "/metrics" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		_, _ = w.Write([]byte("process_cpu_seconds_total 12.5\n"))
	})
	secure, plain := httptest.NewTLSServer(answer), httptest.NewServer(answer)
	defer secure.Close()
	defer plain.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	access := &rest.Config{Host: "https://api.example:6443/below", BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{CAData: authority,
		ServerName: "api.example"}}
	for _, c := range []struct {
		name, address string
		access        *rest.Config
		want          float64
		token, fails  string
	}{
		{"of the same authority", secure.URL + "/metrics", access, 12.5, "Bearer secret", ""},
		{"in the clear", plain.URL + "/metrics", access, 12.5, "", ""},
		{"of another authority", secure.URL + "/metrics", &rest.Config{Host: access.Host, BearerToken: "secret"}, 0, "-", "certificate"},
		{"forbidden", secure.URL + "/other", access, 0, "Bearer secret", "403"},
	} {
		tokens = nil
		read, err := schedulerSeconds(c.access, c.address)
		if err != nil {
			t.Fatal(err)
		}
		got, err := read(t.Context())
		if got != c.want || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: got %v, %v; want %v, %q", c.name, got, err, c.want, c.fails)
		}
		switch {
		case c.token == "-" && len(tokens) != 0:
			t.Errorf("%s: it was asked", c.name)
		case c.token != "-" && (len(tokens) != 1 || tokens[0] != c.token):
			t.Errorf("%s: got the tokens %q, want %q", c.name, tokens, c.token)
		}
	}
	if read, err := schedulerSeconds(access, ""); read != nil || err != nil {
		t.Error("an address that was not given is read")
	}
	for address, good := range map[string]bool{"https://127.0.0.1:10259/metrics": true, "http://localhost:1/m": true, "127.0.0.1:10259": false,
		"https://": false, "https://a:b@c/metrics": false, "/metrics": false, "file:///metrics": false} {
		if err := checkMetricsURL(address); (err == nil) != good {
			t.Errorf("%q: got %v", address, err)
		}
	}
}
