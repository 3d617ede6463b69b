package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/shardsched/shardsched/cmd/internal/console"
	"github.com/shardsched/shardsched/cmd/internal/snapshot"
	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

const (
	// whatIfTime is how long one question may take, and whatIfMemory how many bytes of memory.
	whatIfTime   = time.Minute
	whatIfMemory = 4 << 30
	// maxReport is how large an answer may be, and maxSaid what is said beside.
	maxReport, maxSaid = 64 << 20, 64 << 10
	// manifestsAt and configAt are where the child reads the manifests and the configuration from.
	manifestsAt, configAt = "/dev/fd/3", "/dev/fd/4"
)

// simulator answers questions of the console's page, one at a time: `simulate` runs in a child process, at low priority, with its time and
// its memory bounded. What becomes of the child harms nobody else.
type simulator struct {
	// args are those of simulate that name the cluster; where cluster is set, it writes that to the child's standard input, "-f -".
	args    []string
	cluster func(context.Context, io.Writer) error
	// config is the configuration that decides, as YAML; empty: args name one, or the default decides.
	config string
	env    []string
	time   time.Duration
	turn   chan struct{} // holds a token while none is under way
}

func newSimulator(cluster func(context.Context, io.Writer) error, args ...string) *simulator {
	if cluster != nil {
		args = append([]string{"-f", "-"}, args...)
	}
	m := &simulator{args: args, cluster: cluster, time: whatIfTime, turn: make(chan struct{}, 1)}
	m.turn <- struct{}{}
	return m
}

// answer is console.WhatIf's. The child ends where ctx does.
func (m *simulator) answer(ctx context.Context, q *console.Question) (report []byte, said string, err error) {
	select {
	case <-m.turn:
		defer func() { m.turn <- struct{}{} }()
	default:
		return nil, "", status.Error(codes.ResourceExhausted, "another question is being answered: there is one at a time. Ask again in a minute")
	}
	ctx, cancel := context.WithTimeout(ctx, m.time)
	defer cancel()
	report, said, err = m.run(ctx, q)
	switch {
	case ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, said, status.Errorf(codes.DeadlineExceeded, "there is no answer after %s: the question is given up", m.time)
	case ctx.Err() != nil:
		return nil, said, status.FromContextError(ctx.Err()).Err()
	}
	return report, said, err
}

func (m *simulator) run(ctx context.Context, q *console.Question) (report []byte, said string, err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, "", status.Error(codes.Internal, err.Error())
	}
	args := append([]string{"simulate", "--output=json"}, m.args...)
	if q.Manifests != "" {
		args = append(args, "-f", manifestsAt)
	}
	if m.config != "" {
		args = append(args, "--config="+configAt)
	}
	child := exec.CommandContext(ctx, program, append(args, q.Flags()...)...)
	child.Env = append([]string{fmt.Sprintf("GOMEMLIMIT=%d", whatIfMemory/4*3)}, m.env...)
	child.WaitDelay = 5 * time.Second
	out, errs := &bounded{most: maxReport}, &bounded{most: maxSaid}
	child.Stdout, child.Stderr = out, errs
	writing, stop := context.WithCancel(ctx)
	defer stop()
	wrote := make(chan error, 1)
	r, w := io.Pipe()
	defer r.Close()
	if m.cluster == nil {
		wrote <- nil
	} else {
		child.Stdin = r
		go func() {
			err := m.cluster(writing, w)
			w.CloseWithError(err)
			wrote <- err
		}()
	}
	for _, text := range []string{q.Manifests, m.config} { // files 3 and 4
		r, err := pipeOf(text)
		if err != nil {
			return nil, "", status.Error(codes.Internal, err.Error())
		}
		defer r.Close()
		child.ExtraFiles = append(child.ExtraFiles, r)
	}
	ended := runLow(child, whatIfMemory)
	said = strings.NewReplacer(manifestsAt, "manifests", "standard input", "the cluster").Replace(errs.String())
	r.Close() // a child that ended before it had read all leaves a write that nothing else ends
	if m.cluster != nil {
		stop()
		if broken := <-wrote; broken != nil && ctx.Err() == nil && !errors.Is(broken, io.ErrClosedPipe) && !errors.Is(broken, context.Canceled) {
			return nil, said, status.Errorf(codes.InvalidArgument, "the copy of the cluster can't be made: %v", broken)
		}
	}
	exit := (*exec.ExitError)(nil)
	switch {
	case out.full:
		return nil, said, status.Errorf(codes.InvalidArgument, "the answer is larger than %d bytes", maxReport)
	case (ended == nil || errors.As(ended, &exit) && exit.ExitCode() == exitPends) && json.Valid(out.Bytes()):
		return out.Bytes(), said, nil
	case errors.As(ended, &exit) && exit.ExitCode() == exitFailed:
		_, why, _ := strings.Cut("\n"+strings.TrimSpace(said), "\nerror: ") // the log stands before it
		return nil, "", status.Error(codes.InvalidArgument, cmp.Or(why, said))
	}
	return nil, said, status.Errorf(codes.InvalidArgument, "the simulation ended without an answer: %v", cmp.Or(ended, io.ErrUnexpectedEOF))
}

// pipeOf is a file from which a child reads a text.
func pipeOf(text string) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	go func() {
		io.WriteString(w, text) // it fails where the child ends early
		w.Close()
	}()
	return r, nil
}

// bounded keeps what is written to it, up to a number of bytes.
type bounded struct {
	bytes.Buffer
	most int
	full bool
}

// Write is part of io.Writer. What is too much is left out.
func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.most {
		b.full = true
		b.Buffer.Write(p[:b.most-b.Len()])
		return len(p), nil
	}
	return b.Buffer.Write(p)
}

// copyOfStore writes what a coordinator keeps, as `simulate` reads it; where the API server keeps it, read does.
func copyOfStore(conn grpc.ClientConnInterface, read func(context.Context, io.Writer) error) func(context.Context, io.Writer) error {
	client := pb.NewSchedulerServiceClient(conn)
	return func(ctx context.Context, out io.Writer) error {
		list := newObjectList(out)
		for _, kind := range objects.Kinds() {
			for token := ""; ; {
				page, err := client.ListObjects(ctx, &pb.ListObjectsRequest{Kind: string(kind), ContinueToken: token})
				if keptElsewhere(err) {
					return read(ctx, out)
				}
				if err != nil {
					return err
				}
				for _, raw := range page.GetObjects() {
					obj, err := objects.Decode(raw.GetRaw())
					if err != nil {
						return err
					}
					if err := list.add(withoutEnvironment(obj)); err != nil {
						return err
					}
				}
				if token = page.GetContinueToken(); token == "" {
					break
				}
			}
		}
		return list.end()
	}
}

// keptElsewhere tells whether a call was refused because the API server keeps the objects.
func keptElsewhere(err error) bool {
	for _, detail := range status.Convert(err).Details() {
		if _, is := detail.(*pb.NotKept); is {
			return true
		}
	}
	return false
}

// copyOfCluster writes what an API server has, with one's own rights.
func (c *connection) copyOfCluster(s Streams) func(context.Context, io.Writer) error {
	return func(ctx context.Context, out io.Writer) error {
		if asks, err := c.asksAPIServer(s); err != nil || !asks {
			return cmp.Or(err, errors.New("the API server keeps the objects: start the console with --kubeconfig or --context, whose rights are "+
				"used to read them"))
		}
		config, err := c.kubernetes.rest()
		if err == nil {
			_, err = snapshot.Write(ctx, config, out)
		}
		return err
	}
}

// objectList writes objects as a JSON List, one a line.
type objectList struct {
	out    io.Writer
	before string
}

func newObjectList(out io.Writer) *objectList {
	return &objectList{out, `{"apiVersion":"v1","kind":"List","items":[` + "\n"}
}

func (l *objectList) add(obj objects.Object) error {
	kind := objects.KindOf(obj)
	obj.GetObjectKind().SetGroupVersionKind(kind.GroupVersion().WithKind(string(kind)))
	text, err := json.Marshal(obj)
	if err == nil {
		_, err = fmt.Fprintf(l.out, "%s%s", l.before, text)
	}
	l.before = ",\n"
	return err
}

func (l *objectList) end() error {
	if l.before != ",\n" {
		if _, err := io.WriteString(l.out, l.before); err != nil {
			return err
		}
	}
	_, err := io.WriteString(l.out, "\n]}\n")
	return err
}
