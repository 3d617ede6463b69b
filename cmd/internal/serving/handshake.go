package serving

import (
	"context"
	"crypto/tls"
	"net"

	"google.golang.org/grpc/credentials"
)

// handshaker makes its TLS configuration anew for each handshake of a gRPC client.
type handshaker struct {
	credentials.TransportCredentials // what needs no file
	config                           func() (*tls.Config, error)
}

// NewClientCredentials are those of a gRPC client that speaks TLS as config says at each handshake.
func NewClientCredentials(config func() (*tls.Config, error)) credentials.TransportCredentials {
	return handshaker{credentials.NewTLS(&tls.Config{}), config}
}

// ClientHandshake implements credentials.TransportCredentials.
func (h handshaker) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	config, err := h.config()
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(config).ClientHandshake(ctx, authority, raw)
}

// Clone implements credentials.TransportCredentials.
func (h handshaker) Clone() credentials.TransportCredentials { return h }
