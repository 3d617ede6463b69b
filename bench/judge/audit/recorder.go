package audit

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"

	etcdpb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// Txn is one request to write, as etcd was asked, and what it answered.
type Txn struct {
	// ID is unique in one life of one etcd process, and in one file.
	ID int64 `json:"id"`
	// Fences are the keys whose create revision the request compares, with that revision.
	Fences map[string]int64 `json:"fences,omitempty"`
	// Writes are the keys that it puts or deletes when its compares hold.
	Writes []string `json:"writes,omitempty"`
	// Answered is false where etcd died, or failed, before it knew the outcome.
	Answered  bool  `json:"answered,omitempty"`
	Succeeded bool  `json:"succeeded,omitempty"`
	Revision  int64 `json:"revision,omitempty"`
}

// Recorder takes down each request to write that an etcd server gets, twice: when it
// comes and when it is answered. A kill -9 loses neither line: each is one write to
// the file.
type Recorder struct {
	mu   sync.Mutex
	out  io.Writer
	next int64
}

// NewRecorder writes JSON lines to out.
func NewRecorder(out io.Writer) *Recorder { return &Recorder{out: out} }

// ContinueRecorder adds to a file that earlier lives of the process wrote to. An ID is
// never used twice: a line has more bytes than one, so there are fewer of them than bytes.
func ContinueRecorder(file *os.File) (*Recorder, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	return &Recorder{out: file, next: info.Size()}, nil
}

// Unary is the etcd server's interceptor. What can't be written down is not answered.
func (r *Recorder) Unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	t, ok := asked(req)
	if !ok {
		return handle(ctx, req)
	}
	if err := r.write(&t); err != nil {
		return nil, err
	}
	resp, err := handle(ctx, req)
	if err != nil {
		return resp, err
	}
	t.answer(resp)
	return resp, r.write(&t)
}

func (r *Recorder) write(t *Txn) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.ID == 0 {
		r.next++
		t.ID = r.next
	}
	line, err := json.Marshal(t)
	if err != nil {
		return err
	}
	_, err = r.out.Write(append(line, '\n'))
	return err
}

// asked reads a request; false: it writes nothing.
func asked(req any) (t Txn, ok bool) {
	switch q := req.(type) {
	case *etcdpb.TxnRequest:
		for _, c := range q.Compare {
			if c.Target == etcdpb.Compare_CREATE && c.Result == etcdpb.Compare_EQUAL {
				if t.Fences == nil {
					t.Fences = map[string]int64{}
				}
				t.Fences[string(c.Key)] = c.GetCreateRevision()
			}
		}
		t.Writes = writes(q.Success, nil)
	case *etcdpb.PutRequest:
		t.Writes = []string{string(q.Key)}
	case *etcdpb.DeleteRangeRequest:
		t.Writes = []string{string(q.Key)}
	}
	return t, len(t.Writes) > 0
}

func writes(ops []*etcdpb.RequestOp, into []string) []string {
	for _, op := range ops {
		switch o := op.Request.(type) {
		case *etcdpb.RequestOp_RequestPut:
			into = append(into, string(o.RequestPut.Key))
		case *etcdpb.RequestOp_RequestDeleteRange:
			into = append(into, string(o.RequestDeleteRange.Key))
		case *etcdpb.RequestOp_RequestTxn:
			into = writes(o.RequestTxn.Failure, writes(o.RequestTxn.Success, into))
		}
	}
	return into
}

func (t *Txn) answer(resp any) {
	t.Answered = true
	switch a := resp.(type) {
	case *etcdpb.TxnResponse:
		t.Succeeded, t.Revision = a.Succeeded, a.Header.GetRevision()
	case *etcdpb.PutResponse:
		t.Succeeded, t.Revision = true, a.Header.GetRevision()
	case *etcdpb.DeleteRangeResponse:
		t.Succeeded, t.Revision = true, a.Header.GetRevision()
	}
}

// ReadTxns reads what Recorders wrote to a file. A last line that a
// kill cut short is passed over.
func ReadTxns(r io.Reader) ([]Txn, error) {
	var out []Txn
	at := map[int64]int{}
	lines := bufio.NewReaderSize(r, 1<<20)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		var t Txn
		if err := json.Unmarshal(line, &t); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if i, again := at[t.ID]; again {
			out[i] = t
			continue
		}
		at[t.ID] = len(out)
		out = append(out, t)
	}
}
