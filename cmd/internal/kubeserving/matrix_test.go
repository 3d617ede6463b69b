package kubeserving

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/path"
	"k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/apiserver/pkg/server/mux"
	apiserveroptions "k8s.io/apiserver/pkg/server/options"
)

// The headers of a request say what its user may.
const (
	onlyHeader   = "Only"   // one verb and path
	exceptHeader = "Except" // all but one
)

// rights asks as somebody, of whom the headers say what they may.
func rights(t *testing.T) http.Handler {
	t.Helper()
	open, err := path.NewAuthorizer(apiserveroptions.NewDelegatingAuthorizationOptions().AlwaysAllowPaths)
	if err != nil {
		t.Fatal(err)
	}
	who := authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{Name: user.Anonymous, Extra: map[string][]string{
			onlyHeader: r.Header[onlyHeader], exceptHeader: r.Header[exceptHeader],
		}}}, true, nil
	})
	rbac := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		asked, has := a.GetVerb()+" "+a.GetPath(), a.GetUser().GetExtra()
		if only := has[onlyHeader]; len(only) > 0 && only[0] == asked {
			return authorizer.DecisionAllow, "", nil
		}
		if except := has[exceptHeader]; len(except) > 0 && except[0] != asked {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	})
	return Guard(testConfig(true).Handler(), who, union.New(open, rbac))
}

// documented are the entries of docs/security.md: paths, and those that stand for what is below them, that everybody
// may ask for, and others.
func documented(t *testing.T) (everybody, others []string) {
	t.Helper()
	text, err := os.ReadFile("../../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	entries := func(who string) []string {
		row := regexp.MustCompile("(?m)^\\| " + who + " \\| (`/.*`) \\|$").FindStringSubmatch(string(text))
		if row == nil {
			t.Fatalf("docs/security.md: want a row of %s, got none", who)
		}
		return strings.Fields(strings.ReplaceAll(row[1], "`", ""))
	}
	return entries("everybody"), entries("who may `get` the path")
}

// entry is the one that a path belongs to, empty without one.
func entry(path string, entries []string) string {
	for _, e := range entries {
		if path == e || strings.HasSuffix(e, "/") && strings.HasPrefix(path+"/", e) {
			return e
		}
	}
	return ""
}

// TestEveryPathIsGuarded asks for every path as nobody, with the right to it alone, and with the right to all but it.
func TestEveryPathIsGuarded(t *testing.T) {
	everybody, others := documented(t)
	used := map[string]bool{}
	h := rights(t)
	asked := 0
	ask := func(method, path, header, right string) int {
		// A profile takes its time: it is the guard that is asked.
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r := httptest.NewRequest(method, path, strings.NewReader("0")).WithContext(ctx)
		if header != "" {
			r.Header.Set(header, right)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		asked++
		return w.Code
	}
	// Upstream's list leaves out what profiling adds.
	unlisted := []string{"/debug/pprof", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/profile", "/debug/pprof/symbol", "/debug/pprof/trace", "/debug/pprof/heap", "/debug/flags", "/debug/flags/", "/debug/flags/v"}
	for _, path := range append(testConfig(true).Handler().(*mux.PathRecorderMux).ListedPaths(), unlisted...) {
		open := entry(path, everybody)
		of := open
		if open == "" {
			of = entry(path, others)
		}
		if used[of] = true; of == "" {
			t.Errorf("%s: want an entry in docs/security.md, got none", path)
		}
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			right := strings.ToLower(method) + " " + path
			for _, test := range []struct {
				header, right string
				allowed       bool
			}{{"", "", open != ""}, {onlyHeader, right, true}, {exceptHeader, right, open != ""}, {onlyHeader, "get /nothing", open != ""}} {
				if code := ask(method, path, test.header, test.right); (code != http.StatusForbidden) != test.allowed {
					t.Errorf("%s %s with %s %q: want allowed %v, got %d", method, path, test.header, test.right, test.allowed, code)
				}
			}
		}
	}
	for _, e := range append(everybody, others...) {
		if !used[e] {
			t.Errorf("docs/security.md: want a path that is served, got %s", e)
		}
	}
	t.Logf("%d calls were made", asked)
}
