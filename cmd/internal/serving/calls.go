package serving

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// ServerOptions are the options of a gRPC server. It asks every caller who they are, and lets callers through
// that Callers names. Without TLS it lets everybody through. A call that panics ends with an error, and the process
// goes on. Its services are registered by Registrar.
func (g *Guard) ServerOptions() []grpc.ServerOption {
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(codec{protoCodec()}),
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo,
			next grpc.UnaryHandler,
		) (answer any, err error) {
			defer g.access.met(ctx, info.FullMethod, &err)
			who, known := ctx.Value(callerKey{}).(string)
			if !known { // Registrar did not register the service
				if who, err = g.allowCall(ctx, info.FullMethod); err != nil {
					return nil, err
				}
			}
			answer, err = next(ctx, req)
			g.access.change(who, from(ctx), info.FullMethod, req, err)
			return answer, err
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
			next grpc.StreamHandler,
		) (err error) {
			defer g.access.met(stream.Context(), info.FullMethod, &err)
			if _, err := g.allowCall(stream.Context(), info.FullMethod); err != nil {
				return err
			}
			return next(srv, stream)
		}),
	}
	if !g.Enabled() {
		return options
	}
	alive := keepalive.ServerParameters{
		Time: time.Minute, Timeout: 20 * time.Second, MaxConnectionAge: g.age, MaxConnectionAgeGrace: maxConnectionAgeGrace,
	}
	options = append(options, grpc.Creds(observed{credentials.NewTLS(g.serverConfig()), g.access}))
	if g.tokens != nil {
		alive.MaxConnectionIdle = time.Minute // whoever connects needs no certificate
		options = append(options, grpc.MaxHeaderListSize(maxHeaderBytes))
	}
	return append(options, grpc.KeepaliveParams(alive))
}

// Plain is a guard of listeners without TLS: it lets everybody through.
func (g *Guard) Plain() *Guard { return &Guard{access: g.access} }

// from is where a call comes from.
func from(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr.Network() == "unix" {
		return "unix"
	}
	return p.Addr.String()
}

// allowCall tells who makes a call, and whether they may.
func (g *Guard) allowCall(ctx context.Context, method string) (who string, err error) {
	if !g.Enabled() {
		return "", nil
	}
	p, _ := peer.FromContext(ctx)
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return "", status.Error(codes.Unauthenticated, "no TLS")
	}
	if who, err = g.allow(ctx, &info.State, bearer(ctx), method); err != nil {
		g.access.refuse(who, from(ctx), method, err)
	}
	return who, err
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
			return id.String(), status.Errorf(codes.PermissionDenied, "forbidden: %s is for the roles %s, not for %s", call, callers,
				id.Role)
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

// observed tells of handshakes that fail.
type observed struct {
	credentials.TransportCredentials
	access *access
}

// ServerHandshake implements credentials.TransportCredentials.
func (o observed) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := o.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		o.access.handshake(raw.RemoteAddr().String(), err.Error())
	}
	return conn, info, err
}

// Clone implements credentials.TransportCredentials.
func (o observed) Clone() credentials.TransportCredentials {
	return observed{o.TransportCredentials.Clone(), o.access}
}
