package cli

import (
	"cmp"
	"net"
	"net/http"

	"github.com/shardsched/shardsched/cmd/internal/console"
	"github.com/shardsched/shardsched/cmd/internal/serving"
	"github.com/shardsched/shardsched/coordinator/config"
	"github.com/shardsched/shardsched/coordinator/standalone/api"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// consolePages are the console of a coordinator of this process, by its path. Its client API answers it without a listener. Changes are
// tried by the coordinator's configuration on what it keeps; noCopy is why that is no whole cluster, empty: it is. None: nobody wants it.
func (p Process) consolePages(guard *serving.Guard, server *api.Server, c *config.Config, noCopy string) (map[string]http.Handler, error) {
	if !p.Console {
		return nil, nil
	}
	conn := guard.Within(&pb.SchedulerService_ServiceDesc, server, maxRequestBytes)
	text, err := cmp.Or(c, config.Default()).YAML()
	if err != nil {
		return nil, err
	}
	what := newSimulator(copyOfStore(conn, nil))
	what.config = string(text)
	what.env = []string{"GOMAXPROCS=1"} // the loop has the other cores
	shown := &console.WhatIf{
		Answer: what.answer, Command: []string{"simulate", "-f", "cluster.json", "--config=kube-scheduler.yaml"},
		Copy: "The copy is what this coordinator keeps, and its own configuration decides on it: that is what cluster.json and " +
			"kube-scheduler.yaml stand for in the command line.",
	}
	if noCopy != "" {
		shown = &console.WhatIf{Missing: noCopy}
	}
	pages, err := console.New(console.Config{Conn: conn, Version: Version(), WhatIf: shown})
	if err != nil {
		return nil, err
	}
	return map[string]http.Handler{console.Path: pages}, nil
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
