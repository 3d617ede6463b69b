package serving

import (
	"context"
	"crypto/tls"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// ServerOptions are those of a gRPC server: it asks every caller who they are, and lets through
// whom Callers names. Without TLS there are none.
func (g *Guard) ServerOptions() []grpc.ServerOption {
	if !g.Enabled() {
		return nil
	}
	options := []grpc.ServerOption{
		grpc.Creds(credentials.NewTLS(g.serverConfig())),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: time.Minute, Timeout: 20 * time.Second, MaxConnectionAge: g.age, MaxConnectionAgeGrace: maxConnectionAgeGrace,
		}),
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if err := g.allowCall(ctx, info.FullMethod); err != nil {
				return nil, err
			}
			return next(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			if err := g.allowCall(stream.Context(), info.FullMethod); err != nil {
				return err
			}
			return next(srv, stream)
		}),
	}
	if g.tokens != nil {
		options = append(options, grpc.MaxHeaderListSize(maxHeaderBytes))
	}
	return options
}

func (g *Guard) allowCall(ctx context.Context, method string) error {
	p, _ := peer.FromContext(ctx)
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return status.Error(codes.Unauthenticated, "no TLS")
	}
	_, err := g.allow(ctx, &info.State, bearer(ctx), method)
	return err
}

// allow tells who makes a call, by the certificate of the connection or else by a bearer token, and
// whether they may: a status of PermissionDenied or, where nobody is known, Unauthenticated.
func (g *Guard) allow(ctx context.Context, s *tls.ConnectionState, token, call string) (who string, err error) {
	callers := Callers(call)
	switch {
	case s != nil && len(s.PeerCertificates) > 0:
		id, err := g.identify(s.PeerCertificates[0])
		switch {
		case callers == Everybody:
			return id.String(), nil
		case err != nil:
			return "", status.Error(codes.Unauthenticated, err.Error())
		case id.Role&callers == 0:
			return id.String(), status.Errorf(codes.PermissionDenied, "forbidden: %s is for the roles %s, not for %s", call, callers, id.Role)
		}
		return id.String(), nil
	case g.tokens == nil:
		return "", status.Error(codes.Unauthenticated, "no client certificate")
	case token == "":
		return "", status.Error(codes.Unauthenticated, "neither a client certificate nor a bearer token")
	case callers&(Reader|Writer) == 0 || callers == Everybody:
		return "", status.Errorf(codes.PermissionDenied, "forbidden: %s is for certificates of the roles %s", call, callers)
	}
	return g.tokens.Allow(ctx, token, call, Verb(call))
}
