package serving

import (
	"context"
	"fmt"
	"os"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
)

const (
	authorization = "authorization"
	bearerPrefix  = "Bearer "
	// maxHeaderBytes is what the headers of a call may hold where callers need no certificate: a token
	// of a service account has about 1 KiB.
	maxHeaderBytes = 32 << 10
)

// Tokens tells who holds a bearer token, and whether they may make a call: what Callers is to
// certificates. The error is a gRPC status.
type Tokens interface {
	Allow(ctx context.Context, token, call, verb string) (who string, err error)
}

// WithTokens is a guard that asks for a bearer token whoever shows no certificate. Without TLS it is
// the same guard: nothing protects a token on its way.
func (g *Guard) WithTokens(t Tokens) *Guard {
	with := *g
	with.tokens = t
	return &with
}

// bearer is the token of a call, empty without exactly one.
func bearer(ctx context.Context) string {
	values := metadata.ValueFromIncomingContext(ctx, authorization)
	if len(values) != 1 || len(values[0]) <= len(bearerPrefix) || !strings.EqualFold(values[0][:len(bearerPrefix)], bearerPrefix) {
		return ""
	}
	return values[0][len(bearerPrefix):]
}

// ValidateClient is Validate for a client, which needs no certificate where it sends a token.
func (t TLS) ValidateClient(token bool) error {
	if token && t.CertFile == "" && t.KeyFile == "" {
		_, err := parseDNSRoles(t.DNSRoles)
		return err
	}
	return t.Validate()
}

// OpenClient is Open for a client.
func (t TLS) OpenClient(token bool) (*Guard, error) {
	if !token || t.CertFile != "" || t.CAFile == "" {
		return t.Open("")
	}
	return t.openRoots("")
}

// tokenFile is a bearer token in a file.
type tokenFile string

// TokenFile sends the bearer token of a file with each call, over TLS only. The file is read at each call: tokens
// are renewed.
func TokenFile(name string) credentials.PerRPCCredentials { return tokenFile(name) }

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (f tokenFile) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	text, err := os.ReadFile(string(f))
	if err != nil {
		return nil, fmt.Errorf("--token-file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return nil, fmt.Errorf("--token-file: %s is empty", string(f))
	}
	return map[string]string{authorization: bearerPrefix + token}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (tokenFile) RequireTransportSecurity() bool { return true }
