package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/metrics"
	"k8s.io/client-go/util/flowcontrol"
)

const (
	protobufType       = "application/vnd.kubernetes.protobuf"
	jsonType           = "application/json"
	strategicPatchType = "application/strategic-merge-patch+json"
	mergePatchType     = "application/merge-patch+json"

	// requestTimeout is a little more than an API server gives a request.
	requestTimeout = 65 * time.Second
	// answerLimit bounds what is read of an answer.
	answerLimit = 4 << 20
)

// request is one to the API server. Its path has escaped segments.
type request struct {
	method      string
	path        string
	contentType string // of the body
	accept      string // empty: the client's
	body        []byte
	// kind and template are for metrics: "bind", "/api/v1/namespaces/{namespace}/…"
	kind     string
	template string
}

// sender sends requests of one purpose. It is the part of client-go's REST client that
// writes need, without its retries: whether to ask again depends on what was asked.
// A bind makes half the allocations that it makes there (BenchmarkBind); what is left of its
// time is TLS, HTTP/2 and system calls.
type sender struct {
	transport   http.RoundTripper
	base        *url.URL
	limiter     flowcontrol.RateLimiter // nil: none
	pace        *pace                   // nil: somebody waits for what is sent
	fence       func() error
	contentType string
	accept      string
	encoding    runtime.Serializer
	metrics     *writeMetrics
}

func newSender(cfg *rest.Config, limiter flowcontrol.RateLimiter, m *writeMetrics) (*sender, error) {
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, err
	}
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), cfg.ContentType)
	if !ok {
		return nil, fmt.Errorf("content type %q is not supported", cfg.ContentType)
	}
	accept := cfg.AcceptContentTypes
	if accept == "" {
		accept = cfg.ContentType + ", */*"
	}
	return &sender{
		transport: transport, base: base, limiter: limiter, metrics: m,
		contentType: cfg.ContentType, accept: accept, encoding: info.Serializer,
		fence: func() error { return nil },
	}, nil
}

// encode writes an object of a group version in the client's content type.
func (s *sender) encode(obj runtime.Object, gv schema.GroupVersion) ([]byte, error) {
	return runtime.Encode(scheme.Codecs.WithoutConversion().EncoderForVersion(s.encoding, gv), obj)
}

// send waits for the rate limit, sends once, and returns what came back: an answer of
// the API server, whatever its code, or an error.
func (s *sender) send(ctx context.Context, r request) (*answer, error) {
	if s.limiter != nil {
		if err := s.limiter.Wait(ctx); err != nil {
			return nil, &unsentError{err: fmt.Errorf("wait for the client's rate limit: %w", err)}
		}
	}
	if s.pace != nil && !s.pace.begin(ctx) {
		return nil, &unsentError{err: ctx.Err()}
	}
	start := time.Now()
	a, err := s.roundTrip(ctx, &r)
	took := time.Since(start)
	v := s.judge(a, err)
	if s.pace != nil {
		s.pace.end(start.Add(took), took, v)
	}
	code := "<error>"
	if err == nil {
		code = strconv.Itoa(a.code)
	}
	metrics.RequestResult.Increment(ctx, code, r.method, s.base.Host)
	metrics.RequestLatency.Observe(ctx, r.method, url.URL{Scheme: s.base.Scheme, Host: s.base.Host, Path: s.base.Path + r.template}, took)
	if r.method != http.MethodGet {
		s.metrics.wrote(r.kind, v, took)
	}
	return a, err
}

func (s *sender) roundTrip(ctx context.Context, r *request) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return nil, &unsentError{err: err}
	}
	req, err := s.httpRequest(ctx, r)
	if err != nil {
		return nil, &unsentError{err: err}
	}
	resp, err := s.transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit))
	if err != nil && resp.StatusCode >= 300 {
		// The code says more than what was lost.
		body = nil
	} else if err != nil && r.method == http.MethodGet {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return newAnswer(resp, body), nil
}

func (s *sender) httpRequest(ctx context.Context, r *request) (*http.Request, error) {
	u := *s.base
	unescaped, err := url.PathUnescape(r.path)
	if err != nil {
		return nil, err
	}
	prefix := strings.TrimSuffix(u.Path, "/")
	u.Path, u.RawPath = prefix+unescaped, prefix+r.path
	req := (&http.Request{
		Method: r.method, URL: &u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header, 8),
	}).WithContext(ctx)
	req.Header["Accept"] = []string{s.accept}
	if r.accept != "" {
		req.Header["Accept"] = []string{r.accept}
	}
	if r.body != nil {
		req.Header["Content-Type"] = []string{r.contentType}
		req.ContentLength = int64(len(r.body))
		req.Body = io.NopCloser(bytes.NewReader(r.body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(r.body)), nil }
	}
	return req, nil
}

// partial asks for no more of the written object than its metadata.
func (s *sender) partial() string {
	return s.contentType + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1, " + s.accept
}

// judge tells what a try came to.
func (s *sender) judge(a *answer, err error) verdict {
	if err == nil {
		return a.verdict()
	}
	var unsent *unsentError
	switch {
	case isDeposed(err):
		if errors.As(err, &unsent) {
			return deposed
		}
		return open
	case errors.As(err, &unsent), isDial(err):
		return notSent
	}
	return open
}

// ended returns why there is no sense in asking again: ctx or the leadership is over.
func (s *sender) ended(ctx context.Context) error {
	if err := s.fence(); err != nil {
		return err
	}
	return ctx.Err()
}
