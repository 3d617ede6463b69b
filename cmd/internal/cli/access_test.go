package cli

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/shardsched/shardsched/cmd/internal/serving"
	"github.com/shardsched/shardsched/cmd/internal/serving/authority"
)

// roles are the columns of the table in docs/security.md.
var roles = []string{"coordinator", "worker", "reader", "writer", "metrics", "admin"}

// documented is the table of docs/security.md: who may make a call.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte("| call | "+strings.Join(roles, " | ")+" |\n")) {
		t.Fatal("docs/security.md: want a table with the roles, got none")
	}
	may := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(/[^`]+)` \\| (.*) \\|$").FindAllStringSubmatch(string(text), -1) {
		cells := strings.Split(row[2], "|")
		may[row[1]] = []string{}
		for i, cell := range cells {
			switch strings.TrimSpace(cell) {
			case "yes":
				may[row[1]] = append(may[row[1]], roles[i])
			case "everybody":
				may[row[1]] = []string{"everybody"}
			}
		}
	}
	return may
}

// calls are all methods of the services, by their descriptors, with the kind of each.
func calls() map[string]protoreflect.MethodDescriptor {
	all := map[string]protoreflect.MethodDescriptor{}
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		if f.Package() != "shardsched.v1" && f.Package() != "grpc.health.v1" {
			return true
		}
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			for j := range s.Methods().Len() {
				m := s.Methods().Get(j)
				all[fmt.Sprintf("/%s/%s", s.FullName(), m.Name())] = m
			}
		}
		return true
	})
	return all
}

// TestTheTableOfRolesIsTheCodes holds that every call has an entry, in the code and in the document.
func TestTheTableOfRolesIsTheCodes(t *testing.T) {
	may := documented(t)
	paths := []string{"/console/", "/report", "/report.json", "/metrics", "/healthz", "/livez", "/readyz", "/debug/"}
	all := append(slices.Collect(maps.Keys(calls())), paths...)
	for _, call := range all {
		if _, ok := may[call]; !ok || serving.Callers(call) == 0 {
			t.Errorf("%s: want an entry in docs/security.md and in the code, got %q and %q", call, may[call], serving.Callers(call))
		}
	}
	for call, callers := range may {
		if got := serving.Callers(call).String(); got != strings.Join(callers, ", ") {
			t.Errorf("%s: want the roles of docs/security.md, %q, got %q", call, callers, got)
		}
		if !slices.Contains(all, call) {
			t.Errorf("%s: want a call that there is, got none", call)
		}
	}
}

// TestVerbsOfTokensAreDocumented holds the table of verbs in docs/security.md to the code.
func TestVerbsOfTokensAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	verbs := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z]+)` \\| ([A-Za-z, ]+) \\|$").FindAllStringSubmatch(string(text), -1) {
		for name := range strings.SplitSeq(row[2], ", ") {
			verbs["/shardsched.v1.SchedulerService/"+name] = row[1]
		}
	}
	for call := range calls() {
		if !strings.HasPrefix(call, "/shardsched.v1.SchedulerService/") {
			continue
		}
		if verbs[call] != serving.Verb(call) {
			t.Errorf("%s: want the verb of docs/security.md, %q, got %q", call, verbs[call], serving.Verb(call))
		}
		delete(verbs, call)
	}
	if len(verbs) > 0 {
		t.Errorf("want calls that there are, got %v", verbs)
	}
}

// process is a command that runs in this one.
type process struct {
	t     *testing.T
	lines chan string
}

// start runs a command until the test ends.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	return startWith(t, Standard(), args...)
}

func startWith(t *testing.T, runs Runs, args ...string) *process {
	t.Helper()
	ctx, end := context.WithCancel(context.WithValue(t.Context(), signalled{}, true))
	out, in := io.Pipe()
	p := &process{t: t, lines: make(chan string, 16)}
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
		close(p.lines)
	}()
	done := make(chan int, 1)
	go func() {
		done <- Main(ctx, args, Streams{In: strings.NewReader(""), Out: io.Discard, Err: in, Env: func(string) string { return "" }}, runs)
		in.Close()
	}()
	t.Cleanup(func() {
		end()
		for range p.lines { //nolint:revive // until it has ended
		}
		if code := <-done; code != 0 {
			t.Errorf("%s: want exit code 0, got %d", args[0], code)
		}
	})
	return p
}

// line waits for a line that holds text, and returns what follows.
func (p *process) line(text string) string {
	p.t.Helper()
	for line := range p.lines {
		if _, rest, ok := strings.Cut(line, text); ok {
			return rest
		}
		p.t.Log(line)
	}
	p.t.Fatalf("want a line with %q, got the end", text)
	return ""
}

var hosts atomic.Uint32

// freeAddress is on a loopback address of this process's own.
func freeAddress() string {
	return fmt.Sprintf("127.%d.%d.%d:7000", 1+os.Getpid()>>8%250, os.Getpid()%250, 1+hosts.Add(1))
}

// flags are those of mutual TLS.
func flags(f authority.Files) []string {
	return []string{"--tls-cert-file", f.Cert, "--tls-private-key-file", f.Key, "--tls-ca-file", f.CA}
}

// asker is who asks, and whether the certificate is of use at all.
type asker struct {
	name   string
	config *tls.Config
	role   string // empty: none that counts
	in     bool   // TLS lets it in
}

func askers(t *testing.T, ours, foreign *authority.Authority) []asker {
	t.Helper()
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(ours.PEM)
	make := func(name string, a *authority.Authority, role string, in bool, uris ...string) asker {
		f := a.Issue(t.TempDir(), authority.Subject{CommonName: name, URIs: uris})
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			t.Fatal(err)
		}
		// Sent whether or not the server names its issuer: what counts is that it is not taken.
		send := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		return asker{name, &tls.Config{RootCAs: trusted, GetClientCertificate: send}, role, in}
	}
	var all []asker
	for _, role := range roles {
		all = append(all, make(role, ours, role, true, "spiffe://example.org/shardsched/c/"+role))
	}
	return append(all,
		make("a name", ours, "admin", true, "spiffe://example.org/shardsched/c/admin/alice"),
		make("another cluster", ours, "", true, "spiffe://example.org/shardsched/other/admin"),
		make("another domain", ours, "", true, "spiffe://example.com/shardsched/c/admin"),
		make("no such role", ours, "", true, "spiffe://example.org/shardsched/c/root"),
		make("two identities", ours, "", true, "spiffe://example.org/shardsched/c/admin", "spiffe://example.org/shardsched/c/writer"),
		make("no identity", ours, "", true),
		make("another authority", foreign, "", false, "spiffe://example.org/shardsched/c/admin"),
		asker{"no certificate", &tls.Config{RootCAs: trusted}, "", false})
}

// call makes a call without content and returns how it ended.
func call(t *testing.T, conn *grpc.ClientConn, name string, m protoreflect.MethodDescriptor) codes.Code {
	t.Helper()
	return send(t, conn, name, m, &emptypb.Empty{})
}

// undecodable is a message that nobody can decode.
func undecodable() *emptypb.Empty {
	m := &emptypb.Empty{}
	m.ProtoReflect().SetUnknown([]byte{0xff})
	return m
}

// send makes a call with a message and returns how it ended.
func send(t *testing.T, conn *grpc.ClientConn, name string, m protoreflect.MethodDescriptor, message *emptypb.Empty) codes.Code {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: m.IsStreamingClient(), ServerStreams: m.IsStreamingServer()}, name)
	if err != nil {
		return status.Code(err)
	}
	if !m.IsStreamingClient() {
		if err := stream.SendMsg(message); err != nil && err != io.EOF {
			return status.Code(err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		return status.Code(err)
	}
	return status.Code(stream.RecvMsg(&emptypb.Empty{}))
}

// TestRolesOnAllListeners asks every call on every listener of a coordinator and a worker, as everybody.
func TestRolesOnAllListeners(t *testing.T) {
	ours, foreign := authority.New(t), authority.New(t)
	issue := func(path string) []string {
		return flags(ours.Issue(t.TempDir(), authority.Subject{CommonName: path, URIs: []string{"spiffe://example.org/shardsched/c/" + path}}))
	}
	coordinatorHTTP, workerHTTP := freeAddress(), freeAddress()
	coordinator := start(t, append([]string{"coordinator", "--standalone", "--cluster", "c", "--embedded-etcd", "--embedded-etcd-listen", "127.0.0.1:0",
		"--listen", "127.0.0.1:0", "--http-listen", coordinatorHTTP, "--profiling"}, issue("coordinator")...)...)
	endpoint := coordinator.line("etcd serves on ")
	worker := start(t, append([]string{"worker", "--cluster", "c", "--id", "w1", "--etcd-endpoints", "http://" + endpoint,
		"--listen", "127.0.0.1:0", "--http-listen", workerHTTP, "--profiling"}, issue("worker/w1")...)...)
	listeners := map[string]string{
		coordinator.line("coordinator serves clients on "): "/shardsched.v1.SchedulerService/",
		worker.line("worker w1 serves on "):                "/shardsched.v1.WorkerService/ /grpc.health.v1.Health/",
	}
	may := documented(t)
	asked := askOverSocket(t, issue("coordinator"))
	for _, who := range askers(t, ours, foreign) {
		allowed := func(call string) bool {
			return who.in && (slices.Contains(may[call], "everybody") || who.role != "" && slices.Contains(may[call], who.role))
		}
		for address, services := range listeners {
			conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(who.config)))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			for name, m := range calls() {
				served := strings.Contains(services, name[:strings.LastIndex(name, "/")+1])
				code := call(t, conn, name, m)
				asked++
				var ok bool
				switch {
				case !who.in:
					ok = code == codes.Unavailable
				case !served:
					ok = code == codes.Unimplemented
				case !allowed(name):
					ok = code == codes.PermissionDenied || code == codes.Unauthenticated
					if got := send(t, conn, name, m, undecodable()); got != code {
						t.Errorf("%s asks the listener of %s for %s: want %s before the message is decoded, got %s", who.name, services, name, code, got)
					}
				default:
					ok = !slices.Contains([]codes.Code{codes.PermissionDenied, codes.Unauthenticated, codes.Unavailable, codes.Unimplemented}, code)
				}
				if !ok {
					t.Errorf("%s asks the listener of %s for %s: allowed %v, got %s", who.name, services, name, served && allowed(name), code)
				}
			}
		}
		for _, address := range []string{coordinatorHTTP, workerHTTP} {
			config := who.config.Clone()
			config.ServerName = "127.0.0.1"
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
			entries := map[string]string{
				"/metrics": "/metrics", "/healthz": "/healthz", "/livez": "/livez", "/readyz": "/readyz",
				"/debug/pprof/": "/debug/", "/debug/pprof/cmdline": "/debug/", "/debug/pprof/heap": "/debug/", "/debug/pprof/symbol": "/debug/",
			}
			if address == coordinatorHTTP {
				for _, path := range []string{"/console/", "/console/workers", "/console/api/v1/GetLeader", "/console/nothing"} {
					entries[path] = "/console/"
				}
			}
			for path, entry := range entries {
				answer, err := client.Get("https://" + address + path)
				asked++
				if err != nil {
					if who.in {
						t.Errorf("%s asks for %s: %v", who.name, path, err)
					}
					continue
				}
				answer.Body.Close()
				refused := answer.StatusCode == http.StatusForbidden || answer.StatusCode == http.StatusUnauthorized
				if !who.in || refused == allowed(entry) {
					t.Errorf("%s asks for %s: allowed %v, got %s", who.name, path, allowed(entry), answer.Status)
				}
			}
		}
	}
	t.Logf("%d calls were made", asked)
}

// askOverSocket asks a coordinator's socket for every call, without TLS, and returns how many calls that were: all of
// the service are open to whoever can open the socket, and there is no other service.
func askOverSocket(t *testing.T, tls []string) (asked int) {
	t.Helper()
	coordinator := start(t, append([]string{"coordinator", "--standalone", "--cluster", "c", "--embedded-etcd", "--embedded-etcd-listen", "127.0.0.1:0",
		"--listen", "unix://" + t.TempDir() + "/client.sock", "--http-listen", ""}, tls...)...)
	conn, err := grpc.NewClient(coordinator.line("coordinator serves clients on "), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for name, m := range calls() {
		served := strings.HasPrefix(name, "/shardsched.v1.SchedulerService/")
		code := call(t, conn, name, m)
		asked++
		if refused := slices.Contains([]codes.Code{codes.PermissionDenied, codes.Unauthenticated, codes.Unavailable, codes.Unimplemented}, code); refused == served {
			t.Errorf("the socket is asked for %s: want it served %v, got %s", name, served, code)
		}
	}
	return asked
}

// TestProbesAreOpenAndNothingElse asks the listeners for probes without a certificate.
func TestProbesAreOpenAndNothingElse(t *testing.T) {
	a := authority.New(t)
	address := freeAddress()
	f := a.Issue(t.TempDir(), authority.Subject{URIs: []string{"spiffe://example.org/shardsched/default/coordinator"}})
	p := start(t, append([]string{"coordinator", "--standalone", "--embedded-etcd", "--embedded-etcd-listen", "127.0.0.1:0", "--listen", "127.0.0.1:0",
		"--http-listen", "127.0.0.1:0", "--profiling", "--health-listen", address}, flags(f)...)...)
	p.line("coordinator serves clients on ")
	for path, want := range map[string]int{"/livez": 200, "/metrics": 404, "/healthz": 404, "/debug/pprof/": 404, "/": 404} {
		answer, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s: want %d, got %s", path, want, answer.Status)
		}
	}
	for code := 0; code != 200; { // etcd answers in the end
		answer, err := http.Get("http://" + address + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		code = answer.StatusCode
	}
}

// TestClientsUseASocket asks a coordinator over its Unix socket.
func TestClientsUseASocket(t *testing.T) {
	socket := "unix://" + t.TempDir() + "/client.sock"
	p := start(t, "coordinator", "--standalone", "--embedded-etcd", "--embedded-etcd-listen", "127.0.0.1:0", "--listen", socket, "--http-listen", "")
	if got := p.line("coordinator serves clients on "); got != socket {
		t.Errorf("want %s, got %s", socket, got)
	}
	var out, errs bytes.Buffer
	code := Main(t.Context(), []string{"get", "workers", "--address", socket}, Streams{Out: &out, Err: &errs, Env: func(string) string { return "" }}, Standard())
	if code != 0 {
		t.Errorf("want exit code 0, got %d: %s", code, errs.String())
	}
}

// TestACertificateOfTheWrongKind is refused where it is given, in words that help.
func TestACertificateOfTheWrongKind(t *testing.T) {
	a := authority.New(t)
	for _, test := range []struct {
		command, want string
		subject       authority.Subject
	}{
		{"worker --etcd-endpoints http://127.0.0.1:1", "has no URI spiffe://<domain>/shardsched/<cluster>/<role>, and --tls-dns-roles", authority.Subject{CommonName: "old"}},
		{"worker --etcd-endpoints http://127.0.0.1:1", "want the role worker", authority.Subject{URIs: []string{"spiffe://example.org/shardsched/default/coordinator"}}},
		{"worker --id w2 --etcd-endpoints http://127.0.0.1:1", "want a certificate for w2", authority.Subject{URIs: []string{"spiffe://example.org/shardsched/default/worker/w1"}}},
		{"worker --cluster c --etcd-endpoints http://127.0.0.1:1", "this is the cluster c", authority.Subject{URIs: []string{"spiffe://example.org/shardsched/default/worker"}}},
		{"coordinator --standalone --etcd-endpoints http://127.0.0.1:1", "want the role coordinator", authority.Subject{URIs: []string{"spiffe://example.org/shardsched/default/worker"}}},
		{"coordinator --etcd-endpoints http://127.0.0.1:1", "want the role coordinator", authority.Subject{URIs: []string{"spiffe://example.org/shardsched/default/worker"}}},
		{"coordinator --standalone --etcd-endpoints http://127.0.0.1:1 --tls-dns-roles *.w=worker", "want the role coordinator", authority.Subject{DNS: []string{"a.w"}}},
		{"up", "want the role coordinator", authority.Subject{URIs: []string{"spiffe://example.org/shardsched/default/admin"}}},
	} {
		var errs bytes.Buffer
		args := append(strings.Fields(test.command), flags(a.Issue(t.TempDir(), test.subject))...)
		code := Main(context.WithValue(t.Context(), signalled{}, true), args, Streams{Out: io.Discard, Err: &errs, Env: func(string) string { return "" }}, Standard())
		if code != exitFailed || !strings.Contains(errs.String(), test.want) {
			t.Errorf("%s with a certificate of %v: want %q, got exit code %d, %s", test.command, test.subject, test.want, code, errs.String())
		}
	}
}
