package kube

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
)

// defaultQPS is clientConnection.qps of a file that does not set it, as upstream has it.
const defaultQPS = 50

// ClientConfig is what the clients of one process are made of.
type ClientConfig struct {
	// REST is where the API server is and who we are. It is not changed. Its rate limits,
	// content types and user agent are not looked at.
	REST *rest.Config
	// QPS and Burst are those of clientConnection. They hold for each of the writing
	// clients by itself; below 0 there is no limit, 0 is client-go's default.
	QPS   float32
	Burst int
	// ContentType and AcceptContentTypes are those of clientConnection; empty: protobuf.
	ContentType        string
	AcceptContentTypes string
	// UserAgent is "shardsched/<version> (<os>/<arch>)"; each client adds what it is for.
	UserAgent string
	// Fence returns an error that wraps lease.ErrDeposed unless this process leads. nil
	// stands for one that always does.
	Fence func() error
	// Registerer gets the metrics of writes; nil: nowhere.
	Registerer prometheus.Registerer
}

// Clients are a process's clients of the API server, each with connections of its own:
// what one of them sends never queues behind another's.
//
//	client            rate limit    fence   for
//	Reads, Metadata   none          no      lists and watches, consistent reads
//	Leases            none          no      the Lease; also while this process does not lead
//	binds             QPS, Burst    yes     pods/binding
//	volumes           QPS, Burst    yes     PersistentVolumes and claims
//	status            QPS, Burst    yes     pods/status, at the API server's pace
//	events            QPS, Burst    yes     events, likewise
//	evictions         QPS, Burst    yes     victims of preemption: their conditions and DELETEs
//	Plugins            QPS, Burst    writes  whatever compiled-in plugins ask for
//
// Differs from upstream: there, lists, binds and status patches share one limit, so that
// each pod that does not fit costs a bind, and each victim two.
type Clients struct {
	Reads    kubernetes.Interface
	Metadata metadata.Interface
	Leases   kubernetes.Interface

	binds, volumes, claims, status, events, evictions *sender
	metrics                                           *writeMetrics
	cfg                                               ClientConfig
}

// NewClients makes the clients. It connects to nothing yet.
func NewClients(ctx context.Context, cfg ClientConfig) (*Clients, error) {
	c := &Clients{metrics: newWriteMetrics(cfg.Registerer), cfg: cfg}
	reads := cfg.rest("/scheduler")
	http, err := rest.HTTPClientFor(reads)
	if err != nil {
		return nil, fmt.Errorf("client for reads: %w", err)
	}
	if c.Reads, err = kubernetes.NewForConfigAndClient(reads, http); err != nil {
		return nil, fmt.Errorf("client for reads: %w", err)
	}
	if c.Metadata, err = metadata.NewForConfigAndClient(metadata.ConfigFor(reads), http); err != nil {
		return nil, fmt.Errorf("client for metadata: %w", err)
	}
	if c.Leases, err = kubernetes.NewForConfig(cfg.rest("/leader-election")); err != nil {
		return nil, fmt.Errorf("client for leases: %w", err)
	}
	for _, w := range []struct {
		to    **sender
		kind  string
		agent string
	}{
		{&c.binds, kindBind, "/scheduler"}, {&c.volumes, kindVolume, "/scheduler"},
		{&c.claims, kindClaim, "/scheduler"}, {&c.status, kindStatus, "/scheduler"},
		{&c.evictions, kindEviction, "/scheduler"}, {&c.events, kindEvent, ""},
	} {
		if *w.to, err = newSender(cfg.fencedREST(w.agent), cfg.limiter(), c.metrics); err != nil {
			return nil, fmt.Errorf("client for %s writes: %w", w.kind, err)
		}
		(*w.to).fence = cfg.fence
	}
	c.status.pace, c.events.pace = newPace(statusWorkers), newPace(eventWorkers)
	cfg.warn(ctx)
	return c, nil
}

// warn says what a low limit costs.
func (c *ClientConfig) warn(ctx context.Context) {
	if c.QPS > 0 && c.QPS <= defaultQPS {
		klog.FromContext(ctx).Info("Warning: clientConnection limits this scheduler to few binds a second, as it does kube-scheduler; "+
			"set clientConnection.qps and burst (say 5000 and 10000, or qps -1 for no limit) and leave the limits to the API server's "+
			"priority and fairness",
			"qps", c.QPS, "burst", c.Burst, "bindsPerSecond", c.QPS)
	}
}

func (c *ClientConfig) fence() error {
	if c.Fence == nil {
		return nil
	}
	return c.Fence()
}

// limiter is a writing client's own.
func (c *ClientConfig) limiter() flowcontrol.RateLimiter {
	qps, burst := c.QPS, c.Burst
	if qps < 0 {
		return nil
	}
	if qps == 0 {
		qps = rest.DefaultQPS
	}
	if burst <= 0 {
		burst = rest.DefaultBurst
	}
	return flowcontrol.NewTokenBucketRateLimiter(qps, burst)
}

// rest is a configuration with connections of its own: client-go shares those of equal
// configurations, and no two functions are equal to it.
func (c *ClientConfig) rest(agent string) *rest.Config {
	out := rest.CopyConfig(c.REST)
	out.UserAgent = c.UserAgent + agent
	out.QPS, out.Burst, out.RateLimiter = -1, 0, nil
	out.ContentType, out.AcceptContentTypes = c.ContentType, c.AcceptContentTypes
	if out.ContentType == "" {
		out.ContentType = protobufType
	}
	out.DisableCompression = true
	if out.Dial == nil {
		out.Dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	return out
}

// fenced lets writes through while this process leads.
func (c *ClientConfig) fenced(next http.RoundTripper) http.RoundTripper {
	return NewFencedTransport(next, c.fence)
}

// fencedREST is one whose requests are sent by a leader only.
func (c *ClientConfig) fencedREST(agent string) *rest.Config {
	out := c.rest(agent)
	dial := out.Dial
	out.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &fencedConn{Conn: conn, fence: c.fence}, nil
	}
	out.Wrap(c.fenced)
	return out
}
