package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

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
	// Addresses are host:port of coordinators, or unix:///path. At least one, or there is Find.
	Addresses []string
	// Find names the address of the leader, and is asked before a call and before each further round; nil: Addresses are asked in turn,
	// and whoever one of them says leads.
	Find func(context.Context) (string, error)
	// Patience is how long a call is tried again while nobody leads or answers.
	Patience time.Duration
	// Absence is Patience where at all addresses nobody listens, and all are of this machine; 0: Patience. It is also that of names
	// without an address.
	Absence time.Duration
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
	current string           // the address to ask next; empty: it is to be found
	absent  map[string]bool  // addresses at which nobody was when they were asked last
	named   *pb.LeaderRecord // the leader that was named last
	silent  map[string]bool  // addresses that gave no answer when they were asked last
}

// New makes a client; nothing is dialled before the first call.
func New(c Config) (*Client, error) {
	if len(c.Addresses) == 0 && c.Find == nil || c.Dial == nil {
		return nil, errors.New("a client needs an address and a way to dial it")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Sleep == nil {
		c.Sleep = sleep
	}
	made := &Client{config: c, conns: map[string]*grpc.ClientConn{}, absent: map[string]bool{}, silent: map[string]bool{}}
	if c.Find == nil {
		made.current = c.Addresses[0]
	}
	return made, nil
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
	return c.DoConn(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		return call(ctx, pb.NewSchedulerServiceClient(conn))
	})
}

// DoConn is Do for a call of any service.
func (c *Client) DoConn(ctx context.Context, call func(context.Context, grpc.ClientConnInterface) error) error {
	begun := c.config.Now()
	taken := false
	for hops := 0; ; {
		if c.current == "" {
			if err := c.find(ctx); err != nil {
				return err
			}
		}
		sent, err := c.ask(ctx, call)
		if err == nil {
			delete(c.absent, c.current)
			delete(c.silent, c.current)
			return nil
		}
		c.silent[c.current] = status.Code(err) == codes.Unavailable
		next, again := c.after(err)
		taken = taken || sent && mayBeTaken(err)
		if !again || ctx.Err() != nil {
			return c.plain(ctx, err, taken)
		}
		if next != "" && next != c.current && hops < maxHops {
			c.current = next
			hops++
			continue
		}
		if patience := c.patience(err); c.config.Now().Add(pause).Sub(begun) >= patience {
			return c.tired(ctx, err, taken, patience)
		}
		if err := c.config.Sleep(ctx, pause); err != nil {
			return err
		}
		hops = 0
		c.rotate()
	}
}

// find asks for the address, until there is one.
func (c *Client) find(ctx context.Context) error {
	for begun := c.config.Now(); ; {
		address, err := c.config.Find(ctx)
		if err == nil {
			c.current = address
			return nil
		}
		if final := (*FinalError)(nil); errors.As(err, &final) || ctx.Err() != nil ||
			c.config.Now().Add(pause).Sub(begun) >= c.config.Patience {
			return err
		}
		if err := c.config.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// FinalError is one of Find that another try does not mend.
type FinalError struct{ Err error }

func (e *FinalError) Error() string { return e.Err.Error() }
func (e *FinalError) Unwrap() error { return e.Err }

// patience is how long to go on after an error.
func (c *Client) patience(err error) time.Duration {
	c.absent[c.current] = isAbsent(c.current, err)
	for _, a := range c.config.Addresses {
		if !c.absent[a] {
			return c.config.Patience
		}
	}
	if c.config.Find != nil || c.config.Absence == 0 {
		return c.config.Patience
	}
	return min(c.config.Absence, c.config.Patience)
}

// tired is the error of a call that was tried for as long as patience says.
func (c *Client) tired(ctx context.Context, err error, taken bool, patience time.Duration) error {
	at := strings.Join(c.config.Addresses, ", ")
	if c.config.Find != nil {
		at = c.current
	}
	if name := c.named.GetAddress(); name != "" && c.silent[name] {
		return fmt.Errorf("no coordinator leads at %s for %s: %s at %s was the last to lead, and does not answer; another one leads once its "+
			"lease has run out: %w", at, patience, c.named.GetId(), name, c.plain(ctx, err, taken))
	}
	if c.absent[c.current] {
		return fmt.Errorf("nobody listens at %s (tried for %s): is a coordinator running there? %w", at, patience, c.plain(ctx, err, taken))
	}
	return fmt.Errorf("no coordinator leads at %s for %s: %w", at, patience, c.plain(ctx, err, taken))
}

// ask calls the current address, and tells whether the request may have left.
func (c *Client) ask(ctx context.Context, call func(context.Context, grpc.ClientConnInterface) error) (sent bool, err error) {
	conn, ok := c.conns[c.current]
	if !ok {
		var err error
		if conn, err = c.config.Dial(c.current); err != nil {
			return false, fmt.Errorf("dial %s: %w", c.current, err)
		}
		c.conns[c.current] = conn
	}
	noting := &notingConn{ClientConn: conn}
	err = call(ctx, noting)
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
	if notLeader := detail[*pb.NotLeader](s); notLeader != nil {
		if c.config.Find != nil {
			return "", true // it knows others by addresses of their own hosts
		}
		c.named = notLeader.GetLeader()
		return c.named.GetAddress(), notLeader.GetHolder() == ""
	}
	return "", s.Code() == codes.Unavailable && !isForeign(s.Message())
}

// detail is that of a type of what was refused for the state that the coordinator is in; nil: none.
func detail[T proto.Message](s *status.Status) (found T) {
	if s.Code() != codes.FailedPrecondition {
		return found
	}
	for _, d := range s.Details() {
		if is, ok := d.(T); ok {
			return is
		}
	}
	return found
}

// rotate goes on to the configured address after the current one; from a leader
// that was only heard of, to the first.
func (c *Client) rotate() {
	if c.config.Find != nil {
		c.current = ""
		return
	}
	i := slices.Index(c.config.Addresses, c.current)
	c.current = c.config.Addresses[(i+1)%len(c.config.Addresses)]
}

// Words of gRPC and of the libraries below it, for what may be the matter with an address.
const (
	saysHTTP      = "looked like an HTTP/1.1 header"
	saysNoTLS     = "first record does not look like a TLS handshake"
	saysHTTPS     = "unexpected HTTP status code received from server"
	saysNothing   = "error reading server preface: EOF"
	saysNoAddress = "name resolver error: produced zero addresses"
)

// isForeign tells that whoever listens is no coordinator, or not as it is spoken to: another try does not change that.
func isForeign(message string) bool {
	return strings.Contains(message, saysHTTP) || strings.Contains(message, saysNoTLS) || strings.Contains(message, saysHTTPS)
}

// isAbsent tells that nobody listens at an address of this machine, or that there is no address of the name.
func isAbsent(address string, err error) bool {
	message := err.Error()
	if strings.Contains(message, saysNoAddress) {
		return true
	}
	host, _, _ := net.SplitHostPort(address)
	here := strings.HasPrefix(address, "unix:") || host == "localhost" || net.ParseIP(host).IsLoopback()
	return here && (strings.Contains(message, syscall.ECONNREFUSED.Error()) || strings.Contains(message, syscall.ENOENT.Error()))
}

// foreign says what is the matter with an address in words; empty: gRPC's are good enough.
func foreign(address, message string) string {
	_, port, _ := net.SplitHostPort(address)
	clients := "clients use the port of the coordinator's --listen, 7450 by default"
	if port == "7451" {
		clients = "7451 is the metrics port; clients use 7450"
	}
	switch {
	case strings.Contains(message, saysHTTP):
		return fmt.Sprintf("%s speaks HTTP and no gRPC: %s", address, clients)
	case strings.Contains(message, saysHTTPS):
		return fmt.Sprintf("%s is an HTTPS server and no coordinator: %s", address, clients)
	case strings.Contains(message, saysNoTLS):
		return fmt.Sprintf("%s does not speak TLS: leave the --tls flags out, or ask another port: %s", address, clients)
	case strings.Contains(message, saysNothing):
		return fmt.Sprintf("%s ends the connection at once: if it wants TLS, give --tls-ca-file", address)
	case strings.Contains(message, saysNoAddress):
		host, _, _ := net.SplitHostPort(address)
		return fmt.Sprintf("no address is known of %s", host)
	}
	return ""
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
	notKept    bool
}

func (e *Error) Error() string { return e.Message }

// Code is the gRPC code of an error from Do; OK where it has none.
func Code(err error) codes.Code {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Code
	}
	return codes.OK
}

// NotKept tells that a Kubernetes API server keeps the objects, and no coordinator.
func NotKept(err error) bool {
	e := (*Error)(nil)
	return errors.As(err, &e) && e.notKept
}

// MayBeTaken tells whether the call that gave the error may have been carried out
// all the same.
func MayBeTaken(err error) bool {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.MayBeTaken
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// plain is an error of the current address in plain words.
func (c *Client) plain(ctx context.Context, err error, taken bool) error {
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
	if words := foreign(c.current, message); words != "" {
		message = words
	}
	return &Error{Code: s.Code(), Message: message, MayBeTaken: taken, notKept: detail[*pb.NotKept](s) != nil}
}
