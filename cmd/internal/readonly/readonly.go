package readonly

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// AllowFlag is the flag without which a command calls MustNotBind.
const AllowFlag = "allow-binding-credentials"

// reviewPath is where the one request is sent that is not a read.
const reviewPath = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

// reviewTimeout bounds all that MustNotBind asks.
const reviewTimeout = 30 * time.Second

// Clients read from an API server, without a limit of their own: lists and watches of informers must not wait for each other.
type Clients struct {
	Objects  kubernetes.Interface
	Metadata metadata.Interface
}

// NewClients makes the clients. It connects to nothing yet.
func NewClients(c *rest.Config) (*Clients, error) {
	c, err := Config(c)
	if err != nil {
		return nil, err
	}
	http, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("client that reads: %w", err)
	}
	out := &Clients{}
	if out.Objects, err = kubernetes.NewForConfigAndClient(c, http); err != nil {
		return nil, fmt.Errorf("client that reads: %w", err)
	}
	if out.Metadata, err = metadata.NewForConfigAndClient(metadata.ConfigFor(c), http); err != nil {
		return nil, fmt.Errorf("client that reads metadata: %w", err)
	}
	return out, nil
}

// Config is a copy of c whose requests can only read.
func Config(c *rest.Config) (*rest.Config, error) {
	out := rest.CopyConfig(c)
	base, _, err := rest.DefaultServerUrlFor(out)
	if err != nil {
		return nil, fmt.Errorf("address of the API server: %w", err)
	}
	out.QPS, out.Burst, out.RateLimiter = -1, 0, nil
	out.ContentType, out.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	out.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &transport{next: next, below: strings.TrimRight(base.Path, "/")}
	})
	return out, nil
}

// transport refuses what is not a read. It is next to the wire: credentials are in the request already.
type transport struct {
	next http.RoundTripper
	// below is the path that the API server is served at, behind a proxy.
	below string
}

// paths reads a request's path as API servers do.
var paths = request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// reads are the verbs of requests that are let through.
var reads = []string{"get", "list", "watch"}

// RoundTrip is part of http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.check(r); err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, fmt.Errorf("not sent, for this client can only read: %w", err)
	}
	return t.next.RoundTrip(r)
}

// WrappedRoundTripper lets client-go look through.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// check returns why a request is no read.
func (t *transport) check(r *http.Request) error {
	path, below := strings.CutPrefix(r.URL.Path, t.below)
	switch {
	case !below || !strings.HasPrefix(path, "/"):
		return fmt.Errorf("%s %s, want a path below %s/", r.Method, r.URL.Path, t.below)
	case r.Method == http.MethodPost && path == reviewPath:
		return nil
	case r.Method != http.MethodGet:
		return fmt.Errorf("%s %s, want GET", r.Method, r.URL.Path)
	case r.URL.RawPath != "" || slices.Contains(strings.Split(path, "/"), ".."):
		return fmt.Errorf("GET %s, want a path without escapes", r.URL.Path) // proxies may read it in another way
	}
	info, err := paths.NewRequestInfo(&http.Request{Method: r.Method, URL: &url.URL{Path: path, RawQuery: r.URL.RawQuery}})
	switch {
	case err != nil:
		return fmt.Errorf("GET %s: %w", r.URL.Path, err)
	case !slices.Contains(reads, info.Verb):
		return fmt.Errorf("GET %s: %s, want one of %q", r.URL.Path, info.Verb, reads)
	case info.Subresource != "":
		return fmt.Errorf("GET %s: the subresource %s, want an object or a list", r.URL.Path, info.Subresource)
	}
	return nil
}

// MustNotBind returns an error where these credentials may bind pods in every namespace, or where that can't be asked. What a Role of one
// namespace lets them do is not asked for: a question for each namespace would be thousands in a large cluster, and lists of rules
// (SelfSubjectRulesReview) leave out what webhooks decide.
func MustNotBind(ctx context.Context, c *rest.Config) error {
	c, err := Config(c)
	if err != nil {
		return err
	}
	client, err := authorizationclient.NewForConfig(c)
	if err != nil {
		return fmt.Errorf("client for access reviews: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, reviewTimeout, fmt.Errorf("no answer within %v", reviewTimeout))
	defer cancel()
	// A pod can be bound by either.
	for _, what := range []authorizationv1.ResourceAttributes{
		{Verb: "create", Version: "v1", Resource: "pods", Subresource: "binding"},
		{Verb: "create", Version: "v1", Resource: "bindings"},
	} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &what}}
		answer, err := client.SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		name := strings.Trim(what.Resource+"/"+what.Subresource, "/")
		switch {
		case err != nil:
			return fmt.Errorf("ask the API server whether these credentials may create %s: %w%s; --%s does not ask",
				name, err, cause(ctx), AllowFlag)
		case answer.Status.Allowed:
			return fmt.Errorf("these credentials may create %s, and this command only reads: give it ones that may get, list and watch, and "+
				"nothing else, such as those of the role shardsched-shadow in deploy/rbac/shadow.yaml; or --%s, with which it reads by these",
				name, AllowFlag)
		case answer.Status.EvaluationError != "":
			return fmt.Errorf("the API server can't tell whether these credentials may create %s: %s; --%s does not ask", name,
				answer.Status.EvaluationError, AllowFlag)
		}
	}
	return nil
}

// cause says why the time was up, where it was.
func cause(ctx context.Context) string {
	if err := context.Cause(ctx); err != nil {
		return fmt.Sprintf(" (%v)", err)
	}
	return ""
}
