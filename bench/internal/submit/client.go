package submit

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

const (
	// attemptLimit is when a coordinator counts as silent: a paused one never answers.
	attemptLimit = 5 * time.Second
	// attemptPause keeps a client from asking in a tight loop while nobody leads.
	attemptPause = 50 * time.Millisecond
	// maxMessageBytes bounds an answer.
	maxMessageBytes = 64 << 20
)

// Client asks the leading coordinator. It is safe for concurrent use.
type Client struct {
	mu        sync.Mutex
	addresses []string // asked in turn
	current   string   // asked next
	conns     map[string]*grpc.ClientConn
	retries   int
}

// New makes a client of the coordinators at the addresses, host:port.
func New(addresses ...string) *Client {
	c := &Client{conns: map[string]*grpc.ClientConn{}}
	c.SetAddresses(addresses...)
	return c
}

// SetAddresses replaces the coordinators that are known.
func (c *Client) SetAddresses(addresses ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addresses = slices.Clone(addresses)
	if !slices.Contains(c.addresses, c.current) && len(addresses) > 0 {
		c.current = addresses[0]
	}
}

// Retries is how many attempts were not answered, or not by the leader.
func (c *Client) Retries() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.retries
}

// Close ends all connections.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		conn.Close()
	}
	clear(c.conns)
}

// Do calls until the leader has answered, ctx ends, or the answer is an error that
// another attempt does not mend.
func (c *Client) Do(ctx context.Context, call func(context.Context, pb.SchedulerServiceClient) error) error {
	for hopped := false; ; {
		address, conn, err := c.connection()
		if err != nil {
			return err
		}
		err = attempt(ctx, conn, call)
		if err == nil {
			return nil
		}
		next, again := after(err)
		if !again || ctx.Err() != nil {
			return err
		}
		c.failed(address, next)
		// Followers that name each other must not be asked in a tight loop.
		if hopped = !hopped && next != "" && next != address; hopped {
			continue
		}
		select {
		case <-time.After(attemptPause):
		case <-ctx.Done():
			return fmt.Errorf("%w, the last attempt at %s: %w", ctx.Err(), address, err)
		}
	}
}

func attempt(ctx context.Context, conn *grpc.ClientConn, call func(context.Context, pb.SchedulerServiceClient) error) error {
	ctx, cancel := context.WithTimeout(ctx, attemptLimit)
	defer cancel()
	return call(ctx, pb.NewSchedulerServiceClient(conn))
}

// Conn is a connection to the coordinator that led last, for streams.
func (c *Client) Conn() (*grpc.ClientConn, error) {
	_, conn, err := c.connection()
	return conn, err
}

func (c *Client) connection() (string, *grpc.ClientConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn, ok := c.conns[c.current]
	if !ok {
		var err error
		conn, err = grpc.NewClient(c.current, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes)))
		if err != nil {
			return "", nil, fmt.Errorf("dial %s: %w", c.current, err)
		}
		c.conns[c.current] = conn
	}
	return c.current, conn, nil
}

// failed moves on: to the leader that was named, else to the next address. Others may
// have moved on already.
func (c *Client) failed(address, next string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retries++
	switch {
	case c.current != address:
	case next != "":
		c.current = next
	case len(c.addresses) > 0:
		c.current = c.addresses[(slices.Index(c.addresses, address)+1)%len(c.addresses)]
	}
}

// after tells whether another attempt may help, and where; empty: at the next address.
func after(err error) (next string, again bool) {
	s := status.Convert(err)
	switch s.Code() {
	case codes.Unavailable, codes.DeadlineExceeded:
		return "", true
	case codes.FailedPrecondition:
		for _, d := range s.Details() {
			if n, ok := d.(*pb.NotLeader); ok {
				return n.GetLeader().GetAddress(), true
			}
		}
	}
	return "", false
}
