package cli

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/shardsched/shardsched/cmd/internal/console"
	"github.com/shardsched/shardsched/cmd/internal/serving"
	"github.com/shardsched/shardsched/coordinator/standalone/api"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// page loads a page, and returns its status and its text.
func loadPage(t *testing.T, address string) (code int, text string) {
	t.Helper()
	answer, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// TestAConsoleIsServed looks at a scheduler by the page that it serves itself, and by that of the client's command.
func TestAConsoleIsServed(t *testing.T) {
	up := start(t, "up", "--demo", "--workers", "2", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0")
	clients, _, _ := strings.Cut(up.line("clients on "), ",")
	own := up.line("See it in a browser: ")
	for late := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) { // until it leads, and its workers have come
		if _, text := loadPage(t, own+"workers"); strings.Count(text, `<th scope="row">`) == 2 {
			break
		} else if time.Now().After(late) {
			t.Fatalf("got no two workers in time: %s", text)
		}
	}
	beside := start(t, "console", "--listen", "127.0.0.1:0", "--address", clients).line("See it in a browser: ")
	for _, at := range []string{own, beside} {
		if code, text := loadPage(t, at); code != 200 || !strings.Contains(text, "<h1>Overview</h1>") {
			t.Errorf("%s: got %d, want the overview: %s", at, code, text)
		}
		if code, text := loadPage(t, at+"workers"); code != 200 || strings.Count(text, `<th scope="row">`) != 2 {
			t.Errorf("%s: got %d, want two workers: %s", at, code, text)
		}
		if code, text := loadPage(t, at+"api/v1/GetLeader"); code != 200 || !strings.Contains(strings.ReplaceAll(text, " ", ""), `"isSelf":true`) ||
			!strings.Contains(text, own) {
			t.Errorf("%s: got %d %s, want the leader, with the address of its console", at, code, text)
		}
	}
	if _, text := loadPage(t, beside+"workers"); !strings.Contains(text, "shardsched get workers --address "+clients) {
		t.Errorf("got no command line that reaches the same coordinator: %s", text)
	}
}

// A standby's pages lead to the leader, and there are none where nobody wants them.
func TestAStandbysConsole(t *testing.T) {
	server := api.New(api.Config{Self: &pb.LeaderRecord{Id: "a"}})
	server.SetFollowing(&pb.LeaderRecord{Id: "b", Address: "b:7450", Console: "https://b:10259/console/"})
	pages, err := Process{Console: true}.consolePages(&serving.Guard{}, server, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	h := pages["/console/"]
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/console/workers", nil))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `href="https://b:10259/console/"`) {
		t.Errorf("got %d, want a page that leads to the leader: %s", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/console/api/v1/ListWorkers", nil))
	if w.Code != http.StatusMisdirectedRequest || !strings.Contains(w.Body.String(), `"leader":"b:7450"`) {
		t.Errorf("API: got %d %s, want 421 and the leader", w.Code, w.Body)
	}
	if pages, err := (Process{}).consolePages(&serving.Guard{}, server, nil, ""); len(pages) > 0 || err != nil {
		t.Errorf("got %v, %v, want no console", pages, err)
	}
}

func TestTheConsolesAddress(t *testing.T) {
	at := func(address string, tls bool) consolePort {
		a, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		return consolePort{addressed{a}, tls}
	}
	for _, test := range []struct {
		clients string
		served  []consolePort
		want    string
	}{
		{"h:7450", nil, ""},
		{"h:7450", []consolePort{{}}, ""},
		{"h:7450", []consolePort{at("[::]:10259", true)}, "https://h:10259/console/"},
		{"", []consolePort{at("[::]:10259", true)}, "https://[::]:10259/console/"},
		{"h:7450", []consolePort{at("127.0.0.1:10259", true), at("0.0.0.0:7451", true)}, "https://h:7451/console/"},
		{"h:7450", []consolePort{at("10.1.2.3:10259", true), at("127.0.0.1:7451", false)}, "https://10.1.2.3:10259/console/"},
		{"h:7450", []consolePort{{}, at("127.0.0.1:7451", false)}, "http://127.0.0.1:7451/console/"},
	} {
		if got := consoleAddress(test.clients, test.served...); got != test.want {
			t.Errorf("%s, %v: got %q, want %q", test.clients, test.served, got, test.want)
		}
	}
}

// addressed is a listener of which the address alone matters.
type addressed struct{ at net.Addr }

func (a addressed) Addr() net.Addr          { return a.at }
func (addressed) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (addressed) Close() error              { return nil }

func TestTheConsoleIsForThisMachine(t *testing.T) {
	for args, want := range map[string]string{
		"--listen 0.0.0.0:0":             "--listen",
		"--listen x":                     "--listen",
		"--listen 127.0.0.1:0 --lease x": "NAMESPACE/NAME",
		"more":                           "takes no argument",
	} {
		var told strings.Builder
		code := Main(t.Context(), append([]string{"console"}, strings.Fields(args)...), Streams{Out: io.Discard, Err: &told, Env: func(string) string { return "" }}, Runs{})
		if code != exitUsage || !strings.Contains(told.String(), want) {
			t.Errorf("%s: got %d and %q, want a refusal with %q", args, code, told.String(), want)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := serveConsole(t.Context(), Streams{Err: io.Discard}, l.Addr().String(), console.Config{}); err == nil || !strings.Contains(err.Error(), "takes a free port") {
		t.Errorf("a port in use: got %v, want what helps", err)
	}
}
