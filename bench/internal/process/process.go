package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// Process is one life of a program.
type Process struct {
	Name string
	// File holds what it prints.
	File   string
	cmd    *exec.Cmd
	output *output
	done   chan struct{}
	err    error // how it ended; set before done is closed
}

func (p *Process) wait() {
	p.err = p.cmd.Wait()
	p.output.close()
	close(p.done)
}

// PID is its process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process is gone and its output complete.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how it ended: nil where that was with exit code 0. Ask after Done.
func (p *Process) Err() error { return p.err }

// Running tells whether it is still there.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Kill ends it as a power cut would, and returns when it is gone.
func (p *Process) Kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// Terminate asks it to end.
func (p *Process) Terminate() { p.signal(syscall.SIGTERM) }

// Interrupt asks it to end as a person at its terminal would.
func (p *Process) Interrupt() { p.signal(os.Interrupt) }

// Pause stops it in its tracks.
func (p *Process) Pause() { p.signal(syscall.SIGSTOP) }

// Resume lets it go on, unaware.
func (p *Process) Resume() { p.signal(syscall.SIGCONT) }

// signal does nothing to a process that is gone.
func (p *Process) signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

// Line waits for a line that begins with prefix and returns what follows it.
func (p *Process) Line(ctx context.Context, prefix string) (string, error) {
	return p.await(ctx, fmt.Sprintf("a line %q", prefix), func(line string) (string, bool) {
		return strings.CutPrefix(line, prefix)
	})
}

// LineWith waits for a line that holds all the parts, and returns it.
func (p *Process) LineWith(ctx context.Context, parts ...string) (string, error) {
	return p.await(ctx, fmt.Sprintf("a line with %q", parts), func(line string) (string, bool) {
		for _, part := range parts {
			if !strings.Contains(line, part) {
				return "", false
			}
		}
		return line, true
	})
}

// FirstWith waits until one of several processes has a line that holds all the parts, and tells which.
func FirstWith(ctx context.Context, of []*Process, parts ...string) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first := make(chan int, len(of))
	for i, p := range of {
		go func() {
			if _, err := p.LineWith(ctx, parts...); err == nil {
				first <- i
			}
		}()
	}
	select {
	case i := <-first:
		return i, nil
	case <-ctx.Done():
		return 0, fmt.Errorf("none of %d processes has a line with %q: %w", len(of), parts, ctx.Err())
	}
}

func (p *Process) await(ctx context.Context, what string, match func(string) (string, bool)) (string, error) {
	for seen := 0; ; {
		lines, more := p.output.after(seen)
		for _, line := range lines {
			if found, ok := match(line); ok {
				return found, nil
			}
		}
		seen += len(lines)
		if more == nil {
			return "", fmt.Errorf("%s ended (%v) without %s", p.Name, p.err, what)
		}
		select {
		case <-more:
		case <-ctx.Done():
			return "", fmt.Errorf("%s has not printed %s: %w", p.Name, what, ctx.Err())
		}
	}
}
