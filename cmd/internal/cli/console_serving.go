package cli

import (
	"net"
	"net/http"

	"github.com/shardsched/shardsched/cmd/internal/console"
	"github.com/shardsched/shardsched/cmd/internal/serving"
	"github.com/shardsched/shardsched/coordinator/standalone/api"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// consolePages are the console of a coordinator of this process, by its path. Its client API answers it without a listener. None:
// nobody wants it.
func (p Process) consolePages(guard *serving.Guard, server *api.Server) (map[string]http.Handler, error) {
	if !p.Console {
		return nil, nil
	}
	c, err := console.New(console.Config{
		Conn: guard.Within(&pb.SchedulerService_ServiceDesc, server, maxRequestBytes), Version: Version(),
	})
	if err != nil {
		return nil, err
	}
	return map[string]http.Handler{console.Path: c}, nil
}

// consolePort is a listener on which the console is served.
type consolePort struct {
	listener net.Listener // nil: it is not open
	tls      bool
}

// consoleAddress is where others reach the console: at the first listener that is not of this machine alone, else at the first.
// A listener of all addresses is reached by the host that clients are sent to. Empty: there is no listener.
func consoleAddress(clients string, served ...consolePort) string {
	var first string
	for _, p := range served {
		if p.listener == nil {
			continue
		}
		host, port, err := net.SplitHostPort(p.listener.Addr().String())
		if err != nil {
			continue // a socket
		}
		ip := net.ParseIP(host)
		if named, _, err := net.SplitHostPort(clients); ip.IsUnspecified() && err == nil {
			host = named
		}
		scheme := "http://"
		if p.tls {
			scheme = "https://"
		}
		at := scheme + net.JoinHostPort(host, port) + console.Path
		if !ip.IsLoopback() {
			return at
		}
		if first == "" {
			first = at
		}
	}
	return first
}
