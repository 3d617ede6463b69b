package fanout

import (
	"context"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// MaxMessageBytes is the largest message on the wire in either direction.
const MaxMessageBytes = 4 << 20

// maxHeaderBytes is the most that a worker may say beside its messages.
const maxHeaderBytes = 64 << 10

// Dialer connects to workers with these options; without credentials among them
// it speaks plain text, which is for loopback.
func Dialer(options ...grpc.DialOption) Dial {
	reconnect := backoff.DefaultConfig
	reconnect.BaseDelay = 50 * time.Millisecond
	reconnect.MaxDelay = 3 * time.Second
	all := append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: 3 * time.Second}),
		// A peer that is gone without a word is noticed; a slow one is the deadline's
		// business.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 20 * time.Second}),
		// Windows of a fixed size spare the pings that measure the connection.
		grpc.WithStaticStreamWindowSize(MaxMessageBytes), grpc.WithStaticConnWindowSize(2 * MaxMessageBytes),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessageBytes), grpc.MaxCallSendMsgSize(MaxMessageBytes)),
		grpc.WithMaxHeaderListSize(maxHeaderBytes),
	}, options...)
	return func(_ context.Context, m Member) (pb.WorkerServiceClient, io.Closer, error) {
		conn, err := grpc.NewClient("passthrough:///"+m.Address, all...)
		if err != nil {
			return nil, nil, fmt.Errorf("dial worker %s at %s: %w", m.ID, m.Address, err)
		}
		return pb.NewWorkerServiceClient(conn), conn, nil
	}
}
