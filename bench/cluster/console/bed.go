package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/bench/internal/process"
)

// slowConfig is a profile with two expressions, of which one takes long for each node.
const slowConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    filter: {enabled: [{name: CELFilter}]}
    score: {enabled: [{name: CELScore}]}
  pluginConfig:
  - name: CELFilter
    args:
      apiVersion: shardsched.io/v1
      kind: CELFilterArgs
      expressions:
      - name: not-quarantined
        expression: node.labels.all(k, !k.startsWith('quarantine') || !node.labels[k].matches('^(yes|true|[0-9]+h)$'))
  - name: CELScore
    args:
      apiVersion: shardsched.io/v1
      kind: CELScoreArgs
      expressions:
      - name: cheap
        expression: "node.labels[?'pool'].orValue('') == 'spot' ? 100 : 0"
`

// bed is a folder with the program, and processes that it has started.
type bed struct {
	*process.Group
	dir, program string
}

// newBed builds the program as it is now, unless TESTBED_SHARDSCHED names one.
func newBed(ctx context.Context, dir string) (*bed, error) {
	b := &bed{dir: dir, program: os.Getenv("TESTBED_SHARDSCHED"), Group: process.NewGroup(dir)}
	if b.program != "" {
		return b, nil
	}
	b.program = filepath.Join(dir, "shardsched")
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/shardsched/shardsched").Output()
	if err != nil {
		return nil, fmt.Errorf("where the program's module is: %w", err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", b.program, "./cmd/shardsched")
	build.Dir = strings.TrimSpace(string(root))
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return b, nil
}

// file writes a file of the bed and returns its name.
func (b *bed) file(name, text string) (string, error) {
	file := filepath.Join(b.dir, name)
	return file, os.WriteFile(file, []byte(text), 0o600)
}

// objects writes objects to a file of the bed.
func (b *bed) objects(name string, list []runtime.Object) (string, error) {
	f, err := os.Create(filepath.Join(b.dir, name))
	if err != nil {
		return "", err
	}
	if err := write(f, list); err != nil {
		return "", err
	}
	return f.Name(), f.Close()
}

// server is a process that serves a console.
type server struct {
	*process.Process
	// console is where the console's first page is, address that of the client API.
	console, address string
}

// up starts a whole scheduler with objects.
func (b *bed) up(ctx context.Context, name string, list []runtime.Object, args ...string) (*server, error) {
	objects, err := b.objects(name+".json", list)
	if err != nil {
		return nil, err
	}
	s, err := b.serve(ctx, name, append([]string{"up", "-f", objects, "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"}, args...)...)
	if err != nil {
		return nil, err
	}
	line, err := s.LineWith(ctx, "shardsched is up: clients on ")
	if err != nil {
		return nil, err
	}
	s.address, _, _ = strings.Cut(strings.TrimPrefix(line, "shardsched is up: clients on "), ",")
	_, err = s.LineWith(ctx, " pods placed in ") // of what was given
	return s, err
}

// serve starts a process of the program and returns when it has said where its console is.
func (b *bed) serve(ctx context.Context, name string, args ...string) (*server, error) {
	p, err := b.Start(name, b.program, args...)
	if err != nil {
		return nil, err
	}
	s := &server{Process: p}
	if s.console, err = p.Line(ctx, "See it in a browser: "); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, strings.Join(p.Tail(20), "\n"))
	}
	return s, nil
}

// run runs the program to its end.
func (b *bed) run(ctx context.Context, args ...string) (string, error) {
	c := exec.CommandContext(ctx, b.program, args...)
	out, err := c.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("shardsched %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// scene starts a scheduler with a scene. What comes later has come, and has pushed others out.
func (b *bed) scene(ctx context.Context, nodes int) (*server, error) {
	x := newScene(nodes)
	config, err := b.file("slow.yaml", slowConfig)
	if err != nil {
		return nil, err
	}
	later, err := b.objects("later.json", x.later)
	if err != nil {
		return nil, err
	}
	s, err := b.up(ctx, "scene", x.first, "--config", config)
	if err != nil {
		return nil, err
	}
	_, err = b.run(ctx, "apply", "-f", later, "--address", s.address)
	return s, err
}
