package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	etcdCheckEvery   = 3 * time.Second
	etcdCheckTimeout = 3 * time.Second
	// etcdProbeTimeout bounds the search for the cause, over all endpoints.
	etcdProbeTimeout = 3 * time.Second
	// etcdAlertTimeout is how long a refusal of the client's certificate may take after
	// the handshake: TLS 1.3 tells it that late.
	etcdAlertTimeout = 200 * time.Millisecond
)

// etcdHealth asks etcd again and again, says so in the log when answers cease and
// when they come back, and answers /readyz. Everything that needs etcd goes on
// trying by itself.
type etcdHealth struct {
	read  func(context.Context) error // a linearizable read
	probe func(context.Context) error // why etcd is silent; nil: not known
	lease time.Duration               // how long a silence is bridged
	clock clock.PassiveClock

	mu       sync.Mutex // guards what is below
	cause    error      // of the last check; nil: etcd answered
	answered time.Time  // when it last did; zero: never
}

// newEtcdHealth watches an etcd; flags say how its client speaks TLS.
func newEtcdHealth(c *clientv3.Client, flags Etcd, cluster string, lease time.Duration) *etcdHealth {
	return &etcdHealth{
		read: func(ctx context.Context) error {
			// Any answer will do; the key is one that a user with few rights may read.
			_, err := c.Get(ctx, "/shardsched/"+cluster+"/leader/", clientv3.WithLimit(1), clientv3.WithKeysOnly())
			return err
		},
		probe: func(ctx context.Context) error {
			config, err := flags.tlsConfig()
			if err != nil {
				return err
			}
			endpoints := slices.DeleteFunc(c.Endpoints(), func(e string) bool { return e == noPort })
			return probeEndpoints(ctx, endpoints, config)
		},
		lease: lease,
		clock: clock.RealClock{},
	}
}

// run checks until ctx ends.
func (h *etcdHealth) run(ctx context.Context) error {
	tick := time.NewTicker(etcdCheckEvery)
	defer tick.Stop()
	for {
		h.check(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// check asks once and logs a change for the better or the worse.
func (h *etcdHealth) check(ctx context.Context) {
	cause := h.ask(ctx)
	if ctx.Err() != nil {
		return
	}
	h.mu.Lock()
	was := h.cause
	h.cause = cause
	if cause == nil {
		h.answered = h.clock.Now()
	}
	h.mu.Unlock()
	switch {
	case was == nil && cause != nil:
		klog.FromContext(ctx).Error(cause, "etcd is not reachable")
	case was != nil && cause == nil:
		klog.FromContext(ctx).Info("etcd is reachable again")
	}
}

// ask returns nil or why there is no answer.
func (h *etcdHealth) ask(ctx context.Context) error {
	bound, cancel := context.WithTimeout(ctx, etcdCheckTimeout)
	defer cancel()
	err := h.read(bound)
	if err == nil || !silent(err) {
		return err
	}
	bound, cancel = context.WithTimeout(ctx, etcdProbeTimeout)
	defer cancel()
	if cause := h.probe(bound); cause != nil {
		return cause
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("it takes connections, but gave no answer in %s: %w", etcdCheckTimeout, err)
	}
	return err
}

// silent tells of errors in which etcd itself has no part.
func silent(err error) bool {
	code := status.Code(err)
	return errors.Is(err, context.DeadlineExceeded) || code == codes.DeadlineExceeded || code == codes.Unavailable
}

// ready is nil while etcd answers, and through a silence no longer than the lease.
func (h *etcdHealth) ready() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.cause == nil && h.answered.IsZero():
		return errors.New("etcd has not answered yet")
	case h.cause == nil || !h.answered.IsZero() && h.clock.Since(h.answered) <= h.lease:
		return nil
	}
	return fmt.Errorf("etcd is not reachable: %w", h.cause)
}

// probeEndpoints dials every endpoint as the client does and returns what goes wrong,
// nil where one of them takes the connection.
func probeEndpoints(ctx context.Context, endpoints []string, config *tls.Config) error {
	var all []error
	for _, e := range endpoints {
		address, secure, ok := dialed(e, config)
		if !ok {
			return nil
		}
		err := probeEndpoint(ctx, address, secure, config)
		if err == nil {
			return nil
		}
		all = append(all, fmt.Errorf("%s: %w", e, err))
	}
	return errors.Join(all...)
}

// dialed reads an endpoint: host:port, http://host:port or https://host:port. Without a
// scheme the client's TLS decides.
func dialed(endpoint string, config *tls.Config) (address string, secure, ok bool) {
	if !strings.Contains(endpoint, "://") {
		return endpoint, config != nil, true
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return "", false, false
	}
	return u.Host, u.Scheme == "https", true
}

func probeEndpoint(ctx context.Context, address string, secure bool, config *tls.Config) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if config == nil || !secure {
		config = new(tls.Config)
	}
	config = config.Clone()
	config.NextProtos = []string{"h2"}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	c := tls.Client(conn, config)
	err = c.HandshakeContext(ctx)
	if !secure {
		return plainFault(err)
	}
	if err == nil {
		err = lateAlert(c)
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	if verification := (*tls.CertificateVerificationError)(nil); errors.As(err, &verification) {
		return fmt.Errorf("its certificate is not trusted: %w", err)
	}
	if alerted(err) {
		return fmt.Errorf("it refuses this client's certificate or TLS: %w", err)
	}
	return fmt.Errorf("no TLS handshake (does it serve plain http?): %w", err)
}

// plainFault reads from a handshake with an endpoint that is to be asked without TLS
// whether it knows TLS after all.
func plainFault(handshake error) error {
	verification := (*tls.CertificateVerificationError)(nil)
	if handshake == nil || errors.As(handshake, &verification) || alerted(handshake) {
		return errors.New("it serves TLS, but is asked without: its endpoint begins with https://")
	}
	return nil
}

// lateAlert waits a little for the server's refusal of a finished handshake.
func lateAlert(c *tls.Conn) error {
	if err := c.SetReadDeadline(time.Now().Add(etcdAlertTimeout)); err != nil {
		return err
	}
	_, err := c.Read(make([]byte, 1))
	if alerted(err) {
		return err
	}
	return nil
}

// alerted tells of a refusal that the other side sent as a TLS alert.
func alerted(err error) bool {
	op := (*net.OpError)(nil)
	return errors.As(err, &op) && op.Op == "remote error"
}
