package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// maxMessageBytes bounds what one answer may hold; a page of large pods is far
// below.
const maxMessageBytes = 64 << 20

// pause is the time between two rounds over the addresses.
const pause = 250 * time.Millisecond

// maxHops is how many leaders in a row a call follows without a pause.
const maxHops = 4

// Config tells which coordinators to ask, and how.
type Config struct {
	// Addresses are host:port of coordinators, at least one.
	Addresses []string
	// Patience is how long a call is tried again while nobody leads or answers.
	Patience time.Duration
	// Dial opens a connection: DialWith, or a test's own.
	Dial func(address string) (*grpc.ClientConn, error)
	// Now and Sleep are the clock; nil: the real one.
	Now   func() time.Time
	Sleep func(context.Context, time.Duration) error
}

// A coordinator that is paused, or cut off without a word, still takes connections and
// requests: it is given up within these times.
const (
	connectTimeout   = 3 * time.Second
	keepaliveTime    = 10 * time.Second // the least that gRPC takes; servers must allow it
	keepaliveTimeout = 5 * time.Second
)

// DialWith dials with the given credentials, and in other ways as options say.
func DialWith(c credentials.TransportCredentials, options ...grpc.DialOption) func(string) (*grpc.ClientConn, error) {
	reconnect := backoff.DefaultConfig
	reconnect.BaseDelay, reconnect.MaxDelay = pause, connectTimeout
	return func(address string) (*grpc.ClientConn, error) {
		return grpc.NewClient(address, append(options[:len(options):len(options)], grpc.WithTransportCredentials(c),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: connectTimeout}),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes)))...)
	}
}

// Client asks one coordinator at a time. One goroutine uses it.
type Client struct {
	config  Config
	conns   map[string]*grpc.ClientConn
	current string // the address to ask next
}

// New makes a client; nothing is dialled before the first call.
func New(c Config) (*Client, error) {
	if len(c.Addresses) == 0 || c.Dial == nil {
		return nil, errors.New("a client needs an address and a way to dial it")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Sleep == nil {
		c.Sleep = sleep
	}
	return &Client{config: c, conns: map[string]*grpc.ClientConn{}, current: c.Addresses[0]}, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Close ends all connections.
func (c *Client) Close() {
	for _, conn := range c.conns {
		conn.Close()
	}
	clear(c.conns)
}

// Do calls until the leader has answered, patience is over, or the error is one
// that another try does not mend.
func (c *Client) Do(ctx context.Context, call func(context.Context, pb.SchedulerServiceClient) error) error {
	deadline := c.config.Now().Add(c.config.Patience)
	taken := false
	for hops := 0; ; {
		sent, err := c.ask(ctx, call)
		if err == nil {
			return nil
		}
		next, again := c.after(err)
		taken = taken || sent && mayBeTaken(err)
		if !again || ctx.Err() != nil {
			return plain(ctx, err, taken)
		}
		if next != "" && next != c.current && hops < maxHops {
			c.current = next
			hops++
			continue
		}
		if !c.config.Now().Add(pause).Before(deadline) {
			return fmt.Errorf("no coordinator leads at %s for %s: %w",
				strings.Join(c.config.Addresses, ", "), c.config.Patience, plain(ctx, err, taken))
		}
		if err := c.config.Sleep(ctx, pause); err != nil {
			return err
		}
		hops = 0
		c.rotate()
	}
}

// ask calls the current address, and tells whether the request may have left.
func (c *Client) ask(ctx context.Context, call func(context.Context, pb.SchedulerServiceClient) error) (sent bool, err error) {
	conn, ok := c.conns[c.current]
	if !ok {
		var err error
		if conn, err = c.config.Dial(c.current); err != nil {
			return false, fmt.Errorf("dial %s: %w", c.current, err)
		}
		c.conns[c.current] = conn
	}
	noting := &notingConn{ClientConn: conn}
	err = call(ctx, pb.NewSchedulerServiceClient(noting))
	return noting.sent, err
}

// notingConn notes whether a call got as far as a server's connection: one that was refused,
// cut off or not trusted before it spoke gRPC has never seen the request.
type notingConn struct {
	*grpc.ClientConn
	sent bool
}

func (c *notingConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	var to peer.Peer
	err := c.ClientConn.Invoke(ctx, method, args, reply, append(opts, grpc.Peer(&to))...)
	c.sent = c.sent || to.Addr != nil
	return err
}

func (c *notingConn) NewStream(ctx context.Context, d *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	c.sent = true
	return c.ClientConn.NewStream(ctx, d, method, opts...)
}

// after tells whether to call again, and whom; empty: whoever is next.
func (c *Client) after(err error) (next string, again bool) {
	s, ok := status.FromError(err)
	if !ok {
		return "", false
	}
	if notLeader := notLeaderDetail(s); notLeader != nil {
		return notLeader.GetLeader().GetAddress(), true
	}
	return "", s.Code() == codes.Unavailable
}

func notLeaderDetail(s *status.Status) *pb.NotLeader {
	if s.Code() != codes.FailedPrecondition {
		return nil
	}
	for _, d := range s.Details() {
		if n, ok := d.(*pb.NotLeader); ok {
			return n
		}
	}
	return nil
}

// rotate goes on to the configured address after the current one; from a leader
// that was only heard of, to the first.
func (c *Client) rotate() {
	i := slices.Index(c.config.Addresses, c.current)
	c.current = c.config.Addresses[(i+1)%len(c.config.Addresses)]
}

// dialing is how gRPC words that it reached nobody.
const dialing = `connection error: desc = "transport: Error while dialing: `

// mayBeTaken tells of errors after which a request that was sent may have been carried
// out: it was not refused.
func mayBeTaken(err error) bool {
	s, ok := status.FromError(err)
	if !ok {
		return false
	}
	switch s.Code() {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Unknown, codes.Internal, codes.Aborted, codes.DataLoss:
		return true
	}
	return false
}

// Error is a coordinator's refusal, without gRPC's wording.
type Error struct {
	Code    codes.Code
	Message string
	// MayBeTaken: the request, or an earlier try, may have been carried out.
	MayBeTaken bool
}

func (e *Error) Error() string { return e.Message }

// Code is the gRPC code of an error from Do; OK where it has none.
func Code(err error) codes.Code {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Code
	}
	return codes.OK
}

// MayBeTaken tells whether the call that gave the error may have been carried out
// all the same.
func MayBeTaken(err error) bool {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.MayBeTaken
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func plain(ctx context.Context, err error, taken bool) error {
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	if s.Code() == codes.Canceled && ctx.Err() != nil {
		return ctx.Err()
	}
	message := s.Message()
	if rest, ok := strings.CutPrefix(message, dialing); ok {
		message = strings.TrimSuffix(rest, `"`)
	}
	return &Error{Code: s.Code(), Message: message, MayBeTaken: taken}
}
