package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
)

// Group starts processes and ends them all.
type Group struct {
	dir    string
	starts chan func()

	mu      sync.Mutex
	started []*Process
}

// NewGroup keeps the processes' output in dir.
func NewGroup(dir string) *Group {
	g := &Group{dir: dir, starts: make(chan func())}
	go g.run()
	return g
}

// run starts all processes from one thread: on Linux they live no longer than it does.
func (g *Group) run() {
	runtime.LockOSThread()
	for start := range g.starts {
		start()
	}
}

// Start runs a program. The name labels its output; a second process of a name adds
// to the first one's file.
func (g *Group) Start(name, program string, args ...string) (*Process, error) {
	return g.start(func(begin func() error) error { return begin() }, name, program, args)
}

// StartOn runs a program on one core: all that it ever starts runs nowhere else. Linux only.
func (g *Group) StartOn(core int, name, program string, args ...string) (*Process, error) {
	return g.start(func(begin func() error) error { return onCore(core, begin) }, name, program, args)
}

// start runs a program; around calls what begins it.
func (g *Group) start(around func(begin func() error) error, name, program string, args []string) (*Process, error) {
	file, err := os.OpenFile(filepath.Join(g.dir, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("output of %s: %w", name, err)
	}
	p := &Process{Name: name, File: file.Name(), done: make(chan struct{}), output: &output{file: file}}
	p.cmd = exec.Command(program, args...)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.SysProcAttr = dieWithParent()
	fmt.Fprintf(file, "--- %s %q\n", program, args)
	outcome := make(chan error, 1)
	g.starts <- func() { outcome <- around(p.cmd.Start) }
	if err := <-outcome; err != nil {
		file.Close()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go p.wait()
	g.mu.Lock()
	g.started = append(g.started, p)
	g.mu.Unlock()
	return p, nil
}

// Processes are all that were started, in that order.
func (g *Group) Processes() []*Process {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]*Process(nil), g.started...)
}

// Close kills what still runs and returns when it is gone. Nothing is started later.
func (g *Group) Close() {
	for _, p := range g.Processes() {
		p.Kill()
	}
	close(g.starts)
}
