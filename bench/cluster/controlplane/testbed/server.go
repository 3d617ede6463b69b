package testbed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/shardsched/shardsched/bench/internal/process"
)

// Server is a program with a fixed address and data that outlive its processes. Any
// goroutine may use it.
type Server struct {
	// Address is its host:port.
	Address string

	group   *process.Group
	name    string
	program string
	args    []string
	ready   func(context.Context, *process.Process) error

	mu   sync.Mutex
	life *process.Process
}

// startTimeout bounds the time in which a server must answer. An API server that needs seven seconds has taken 79 on a
// machine that left the test a sixth of itself.
const startTimeout = 5 * time.Minute

// Start begins the next life and returns when the server answers. The one before must
// have ended.
func (s *Server) Start(ctx context.Context) error {
	p, err := s.group.Start(s.name, s.program, s.args...)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.life = p
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := s.ready(ctx, p); err != nil {
		return fmt.Errorf("start %s: %w; its last lines:\n%s", s.name, err, strings.Join(p.Tail(20), "\n"))
	}
	return nil
}

// Process is its latest process.
func (s *Server) Process() *process.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life
}

// Kill ends it as a power cut would, and returns when it is gone.
func (s *Server) Kill() { s.Process().Kill() }

// Pause stops it in its tracks.
func (s *Server) Pause() { s.Process().Pause() }

// Resume lets it go on, unaware.
func (s *Server) Resume() { s.Process().Resume() }

// Restart kills it and starts it again.
func (s *Server) Restart(ctx context.Context) error {
	s.Kill()
	return s.Start(ctx)
}

// RestartWith is Restart with flags that come after those that it had, from then on.
func (s *Server) RestartWith(ctx context.Context, flags ...string) error {
	s.Kill()
	s.args = append(s.args, flags...)
	return s.Start(ctx)
}

// Stop asks a process to end, so that it gives back what it holds, and kills it where it
// takes too long.
func Stop(p *process.Process) {
	p.Terminate()
	select {
	case <-p.Done():
	case <-time.After(stopTimeout):
		p.Kill()
	}
}

// stopTimeout is how long a process may take to end.
const stopTimeout = 10 * time.Second

// startSomewhere starts a server on a free port. The port may be taken by another
// between the two; then there is another port.
func startSomewhere(ctx context.Context, s *Server, args func(host, port string) []string) error {
	var errs []error
	for range 3 {
		port, err := freePort()
		if err != nil {
			return err
		}
		s.Address = net.JoinHostPort(loopback, port)
		s.args = args(loopback, port)
		if err = s.Start(ctx); err == nil {
			return nil
		}
		errs = append(errs, err)
		if p := s.Process(); p != nil {
			p.Kill()
		}
	}
	return errors.Join(errs...)
}

const loopback = "127.0.0.1"

// Servers listen on ports below those that systems give to outgoing connections: a
// server that is started again must find its port free.
const firstPort, lastPort = 20000, 32000

// freePort is a port that was free just now.
func freePort() (string, error) {
	var last error
	for range 100 {
		port := strconv.Itoa(firstPort + rand.IntN(lastPort-firstPort))
		l, err := net.Listen("tcp", net.JoinHostPort(loopback, port))
		if err == nil {
			l.Close()
			return port, nil
		}
		last = err
	}
	return "", fmt.Errorf("no free port from %d to %d: %w", firstPort, lastPort, last)
}
