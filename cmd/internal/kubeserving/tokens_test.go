package kubeserving

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// TestTokensAreReviewed asks with tokens of all sorts.
func TestTokensAreReviewed(t *testing.T) {
	who := authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		name := r.Header.Get("Authorization")
		if len(r.Header) != 1 || r.TLS != nil {
			t.Errorf("want nothing but the token, got %v, %v", r.Header, r.TLS)
		}
		if name == "Bearer broken" {
			return nil, false, errors.New("no answer")
		}
		return &authenticator.Response{User: &user.DefaultInfo{Name: name[len("Bearer "):]}}, name != "Bearer garbage", nil
	})
	may := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetUser().GetName() == "alice" && a.GetPath() == "/s/Explain" && a.GetVerb() == "get" && !a.IsResourceRequest() {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "no rule", nil
	})
	tokens := NewTokens(who, may)
	for _, test := range []struct {
		token, path, verb, name string
		want                    codes.Code
	}{
		{"alice", "/s/Explain", "get", "alice", codes.OK},
		{"alice", "/s/Apply", "post", "alice", codes.PermissionDenied},
		{"bob", "/s/Explain", "get", "bob", codes.PermissionDenied},
		{"garbage", "/s/Explain", "get", "", codes.Unauthenticated},
		{"broken", "/s/Explain", "get", "", codes.Unauthenticated},
		{user.Anonymous, "/s/Explain", "get", "", codes.Unauthenticated},
	} {
		name, err := tokens.Allow(t.Context(), test.token, test.path, test.verb)
		if name != test.name || status.Code(err) != test.want {
			t.Errorf("%s, %s %s: want %q, %s, got %q, %v", test.token, test.verb, test.path, test.name, test.want, name, err)
		}
	}
}

// TestReviewsAreBounded has as many reviews under way as may be: one more is refused, and taken when one has ended.
func TestReviewsAreBounded(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	who := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		begun <- struct{}{}
		<-end
		return nil, false, nil
	})
	tokens := NewTokens(who, nil)
	ended := make(chan error)
	ask := func() {
		_, err := tokens.Allow(t.Context(), "x", "/", "get")
		ended <- err
	}
	for range maxReviews {
		go ask()
		<-begun
	}
	if _, err := tokens.Allow(t.Context(), "x", "/", "get"); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("beyond the bound: want ResourceExhausted, got %v", err)
	}
	close(end)
	for range maxReviews {
		if err := <-ended; status.Code(err) != codes.Unauthenticated {
			t.Errorf("want Unauthenticated, got %v", err)
		}
	}
	go ask()
	<-begun
	if err := <-ended; status.Code(err) != codes.Unauthenticated {
		t.Errorf("after the others: want Unauthenticated, got %v", err)
	}
}
