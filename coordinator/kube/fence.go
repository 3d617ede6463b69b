package kube

import (
	"fmt"
	"net"
	"net/http"
)

// FencedTransport asks a fence right before each request that changes something, each try
// of it by itself: after the rate limiter, after the credentials were fetched.
type FencedTransport struct {
	next  http.RoundTripper
	fence func() error
}

// NewFencedTransport puts a fence in front of a transport.
func NewFencedTransport(next http.RoundTripper, fence func() error) *FencedTransport {
	return &FencedTransport{next: next, fence: fence}
}

// RoundTrip is part of http.RoundTripper. Where the fence refuses, nothing is sent.
func (t *FencedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
	default:
		if err := t.fence(); err != nil {
			if req.Body != nil {
				req.Body.Close()
			}
			return nil, &unsentError{err: fmt.Errorf("%s %s: %w", req.Method, req.URL.Path, err)}
		}
	}
	return t.next.RoundTrip(req)
}

// WrappedRoundTripper lets client-go look through.
func (t *FencedTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// unsentError is one before anything was sent.
type unsentError struct{ err error }

func (e *unsentError) Error() string { return e.err.Error() }
func (e *unsentError) Unwrap() error { return e.err }

// fencedConn is a connection of a writing client. A request may wait behind the
// transport's check, for a connection to be made or for room in it: the bytes
// themselves are checked too. Once refused, the connection is of no more use.
type fencedConn struct {
	net.Conn
	fence func() error
}

// Write is part of net.Conn.
func (c *fencedConn) Write(b []byte) (int, error) {
	if err := c.fence(); err != nil {
		c.Conn.Close()
		return 0, err
	}
	return c.Conn.Write(b)
}
