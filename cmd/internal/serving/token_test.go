package serving

import (
	"context"
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/shardsched/shardsched/cmd/internal/serving/authority"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// reviewer takes the token "good", for reads.
type reviewer struct{}

func (reviewer) Allow(_ context.Context, token, call, verb string) (string, error) {
	switch {
	case token != "good":
		return "", status.Error(codes.Unauthenticated, "no")
	case verb != "get":
		return "alice", status.Error(codes.PermissionDenied, call)
	}
	return "alice", nil
}

// TestTokens asks the client API with a certificate, with a token, with both and with neither.
func TestTokens(t *testing.T) {
	a, dir := authority.New(t), t.TempDir()
	guard := open(t, files(t, a, dir, "coordinator", 2), "c")
	l, err := guard.Listen("listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	withTokens := guard.WithTokens(reviewer{})
	s := grpc.NewServer(withTokens.ServerOptions()...)
	pb.RegisterSchedulerServiceServer(withTokens.Registrar(s), pb.UnimplementedSchedulerServiceServer{})
	pb.RegisterWorkerServiceServer(withTokens.Registrar(s), pb.UnimplementedWorkerServiceServer{})
	go s.Serve(l)
	t.Cleanup(s.Stop)
	reader := files(t, a, t.TempDir(), "reader", 3)
	none := TLS{CAFile: reader.CAFile}
	for _, test := range []struct {
		name    string
		files   TLS
		token   string
		method  string
		allowed codes.Code
	}{
		{"a good token reads", none, "good", pb.SchedulerService_Explain_FullMethodName, codes.Unimplemented},
		{"a good token may not write", none, "good", pb.SchedulerService_Apply_FullMethodName, codes.PermissionDenied},
		{"nor delete", none, "good", pb.SchedulerService_Delete_FullMethodName, codes.PermissionDenied},
		{"nor do what is for coordinators", none, "good", pb.WorkerService_Evaluate_FullMethodName, codes.PermissionDenied},
		{"garbage", none, "garbage", pb.SchedulerService_Explain_FullMethodName, codes.Unauthenticated},
		{"more than the headers may hold", none, strings.Repeat("x", maxHeaderBytes), pb.SchedulerService_Explain_FullMethodName, codes.Internal},
		{"neither", none, "", pb.SchedulerService_Explain_FullMethodName, codes.Unauthenticated},
		{"a certificate", reader, "", pb.SchedulerService_Explain_FullMethodName, codes.Unimplemented},
		{"the certificate counts", reader, "garbage", pb.SchedulerService_Explain_FullMethodName, codes.Unimplemented},
		{"the certificate alone counts", files(t, a, t.TempDir(), "metrics", 3), "good", pb.SchedulerService_Explain_FullMethodName, codes.PermissionDenied},
	} {
		client, err := test.files.OpenClient(test.token != "")
		if test.token == "" && test.files == none {
			client, err = none.openRoots("")
		}
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		options := []grpc.DialOption{grpc.WithTransportCredentials(client.ClientCredentials(Coordinator, ""))}
		if test.token != "" {
			options = append(options, grpc.WithPerRPCCredentials(TokenFile(written(t, test.token))))
		}
		conn, err := grpc.NewClient(l.Addr().String(), options...)
		if err != nil {
			t.Fatal(err)
		}
		err = conn.Invoke(t.Context(), test.method, &pb.ExplainRequest{}, &pb.ExplainResponse{})
		if status.Code(err) != test.allowed {
			t.Errorf("%s: want %s, got %v", test.name, test.allowed, err)
		}
		if test.allowed == codes.Unimplemented {
			test.allowed = codes.Internal // only who is let in has a message decoded
		}
		undecodable := &pb.ExplainRequest{}
		undecodable.ProtoReflect().SetUnknown([]byte{0xff})
		err = conn.Invoke(t.Context(), test.method, undecodable, &pb.ExplainResponse{})
		if status.Code(err) != test.allowed {
			t.Errorf("%s, with a message that can't be decoded: want %s, got %v", test.name, test.allowed, err)
		}
		conn.Close()
	}
	if _, _, err := askHTTPS(rootsOf(t, none), serveEndpoint(t, guard), "/healthz"); err == nil {
		t.Error("the HTTP listener: want a certificate asked for, got an answer without")
	}
}

// rootsOf is a client that trusts the server and shows no certificate.
func rootsOf(t *testing.T, files TLS) *tls.Config {
	t.Helper()
	client, err := files.OpenClient(true)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.clientConfig(Coordinator, "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func written(t *testing.T, token string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestATokenIsNotSentInPlain holds gRPC to it: nothing is sent, and nothing dialled.
func TestATokenIsNotSentInPlain(t *testing.T) {
	_, err := grpc.NewClient("127.0.0.1:1", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(TokenFile(written(t, "good"))))
	if err == nil || !strings.Contains(err.Error(), "transport level security") {
		t.Errorf("want an error about the connection, got %v", err)
	}
}

func TestTokenFilesThatHoldNone(t *testing.T) {
	for name, file := range map[string]string{"is empty": written(t, ""), "no such file": "/none"} {
		var c credentials.PerRPCCredentials = TokenFile(file)
		if _, err := c.GetRequestMetadata(t.Context()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: want an error, got %v", name, err)
		}
	}
}
