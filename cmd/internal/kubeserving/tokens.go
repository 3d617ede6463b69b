package kubeserving

import (
	"context"
	"net/http"
	"net/url"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"
)

// maxReviews is how many calls may wait for the API server's word at once: whoever reaches the port can
// send a token.
const maxReviews = 16

// Tokens has the API server tell who holds a bearer token (TokenReview), and what they may
// (SubjectAccessReview on a non-resource URL). What it said holds for as long as at the HTTPS endpoint.
type Tokens struct {
	who     authenticator.Request
	may     authorizer.Authorizer
	reviews chan struct{}
}

// NewTokens asks these.
func NewTokens(who authenticator.Request, may authorizer.Authorizer) *Tokens {
	return &Tokens{who: who, may: may, reviews: make(chan struct{}, maxReviews)}
}

// Allow implements serving.Tokens.
func (t *Tokens) Allow(ctx context.Context, token, path, verb string) (string, error) {
	select {
	case t.reviews <- struct{}{}:
		defer func() { <-t.reviews }()
	default:
		return "", status.Errorf(codes.ResourceExhausted, "%d calls wait for the API server to tell who makes them: ask again", maxReviews)
	}
	holder, err := t.holder(ctx, token)
	if err != nil {
		return "", err
	}
	name := holder.GetName()
	decision, reason, err := t.may.Authorize(ctx, authorizer.AttributesRecord{User: holder, Verb: verb, Path: path})
	if decision == authorizer.DecisionAllow {
		return name, nil
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Ask the API server what the holder of a token may", "user", name, "verb", verb, "path", path)
	}
	return name, status.Errorf(codes.PermissionDenied, "forbidden: user %q may not %s the path %q: %s", name, verb, path, reason)
}

// holder is who holds a token. The request has nothing but it: no name that a front proxy would
// vouch for, and nobody is anonymous.
func (t *Tokens) holder(ctx context.Context, token string) (user.Info, error) {
	r := (&http.Request{URL: &url.URL{}, Header: http.Header{"Authorization": {"Bearer " + token}}}).WithContext(ctx)
	answer, ok, err := t.who.AuthenticateRequest(r)
	if err == nil && ok && answer.User.GetName() != user.Anonymous {
		return answer.User, nil
	}
	if err != nil {
		klog.FromContext(ctx).V(2).Info("The API server does not take a token", "reason", err)
	}
	return nil, status.Error(codes.Unauthenticated, "the API server does not take the token")
}
