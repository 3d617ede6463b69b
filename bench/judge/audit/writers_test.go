package audit

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	etcdpb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

const root = "/shardsched/test/"

// by is a committed transaction of a leader.
func by(key string, term, revision int64, writes ...string) Txn {
	t := Txn{ID: revision, Answered: true, Succeeded: true, Revision: revision}
	if key != "" {
		t.Fences = map[string]int64{root + key: term}
	}
	for _, w := range writes {
		t.Writes = append(t.Writes, root+w)
	}
	return t
}

// reigns is a history in which leader/1 (term 1) leads until revision 4, when leader/2
// (term 2) takes over.
func reigns(t *testing.T) *record {
	r := &record{t: t}
	r.write("leader/1", []byte("a")).write("leader/2", []byte("b"))
	r.write(podsAt+"d/x", []byte("3")).write("leader/1", nil).write(podsAt+"d/y", []byte("5"))
	return r
}

func TestWritersOutsideTheirReignAreFound(t *testing.T) {
	x, y := podsAt+"d/x", podsAt+"d/y"
	lost := func(t Txn) Txn { t.Answered, t.Succeeded, t.Revision = false, false, 0; return t }
	cases := []struct {
		name string
		txns []Txn
		want []string
	}{
		{"each wrote in its reign", []Txn{by("leader/1", 1, 3, x), by("leader/2", 2, 5, y)}, nil},
		{"a leader deletes what is not there as the first thing that it does", []Txn{by("leader/1", 1, 3, x), by("leader/2", 2, 4, queueAt+"gone"), by("leader/2", 2, 5, y)}, nil},
		{"the deposed leader wrote", []Txn{by("leader/1", 1, 3, x), by("leader/1", 1, 5, y)}, []string{"term 1 wrote it, which led from revision 1 to 4"}},
		{"one that waits for its turn wrote", []Txn{by("leader/2", 2, 3, x), by("leader/2", 2, 5, y)}, []string{"term 2 wrote it, which led from revision 4 to 0"}},
		{"a write without a term", []Txn{by("", 0, 3, x), by("leader/2", 2, 5, y)}, []string{"names no term"}},
		{"a term that nobody had", []Txn{by("leader/1", 9, 3, x), by("leader/2", 2, 5, y)}, []string{"is none of a leader"}},
		{"a write that nobody asked for", []Txn{by("leader/1", 1, 3, x)}, []string{"no recorded transaction"}},
		{"a write that etcd died over, in its reign", []Txn{by("leader/1", 1, 3, x), lost(by("leader/2", 2, 5, y))}, nil},
		{"a write that etcd died over, after its reign", []Txn{by("leader/1", 1, 3, x), lost(by("leader/1", 1, 5, y))}, []string{"no recorded transaction"}},
		{"keys that are not a leader's to guard", []Txn{by("leader/1", 1, 3, x), by("leader/2", 2, 5, y), by("", 0, 6, "workers/w1")}, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			faults, _ := JudgeWriters(&reigns(t).h, "test", c.txns)
			expect(t, faults, c.want)
		})
	}
}

func TestReignsCountWritesAndRefusals(t *testing.T) {
	refused := by("leader/1", 1, 5, podsAt+"d/z")
	refused.Succeeded = false
	faults, got := JudgeWriters(&reigns(t).h, "test", []Txn{by("leader/1", 1, 3, podsAt+"d/x"), by("leader/2", 2, 5, podsAt+"d/y"), refused})
	expect(t, faults, nil)
	want := []Reign{{Key: "leader/1", Term: 1, Began: 1, Ended: 4, Writes: 1, Refused: 1}, {Key: "leader/2", Term: 2, Began: 4, Writes: 1}}
	if len(got) != len(want) {
		t.Fatalf("%d reigns, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := *got[i]
		g.Value = nil
		if g.Key != w.Key || g.Term != w.Term || g.Began != w.Began || g.Ended != w.Ended || g.Writes != w.Writes || g.Refused != w.Refused {
			t.Errorf("reign %d: got %+v, want %+v", i, g, w)
		}
	}
}

func TestRecorderTakesDownEveryWrite(t *testing.T) {
	var file bytes.Buffer
	r := NewRecorder(&file)
	put := func(key string) *etcdpb.RequestOp {
		return &etcdpb.RequestOp{Request: &etcdpb.RequestOp_RequestPut{RequestPut: &etcdpb.PutRequest{Key: []byte(key)}}}
	}
	txn := &etcdpb.TxnRequest{
		Compare: []*etcdpb.Compare{{Key: []byte("l"), Target: etcdpb.Compare_CREATE, Result: etcdpb.Compare_EQUAL, TargetUnion: &etcdpb.Compare_CreateRevision{CreateRevision: 7}}},
		Success: []*etcdpb.RequestOp{put("a"), {Request: &etcdpb.RequestOp_RequestDeleteRange{RequestDeleteRange: &etcdpb.DeleteRangeRequest{Key: []byte("b")}}}},
	}
	answers := func(resp any, err error) grpc.UnaryHandler {
		return func(_ context.Context, _ any) (any, error) { return resp, err }
	}
	ask := func(req any, h grpc.UnaryHandler) {
		_, _ = r.Unary(t.Context(), req, nil, h)
	}
	ask(txn, answers(&etcdpb.TxnResponse{Succeeded: true, Header: &etcdpb.ResponseHeader{Revision: 9}}, nil))
	ask(&etcdpb.RangeRequest{Key: []byte("a")}, answers(&etcdpb.RangeResponse{}, nil))
	ask(&etcdpb.TxnRequest{Failure: []*etcdpb.RequestOp{put("c")}}, answers(&etcdpb.TxnResponse{}, nil))
	ask(&etcdpb.PutRequest{Key: []byte("d")}, answers(nil, errors.New("no leader")))
	file.WriteString(`{"id":3,"wri`)

	got, err := ReadTxns(&file)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 {
		t.Fatalf("got %+v, want 2 transactions", got)
	}
	if g := got[0]; g.Fences["l"] != 7 || strings.Join(g.Writes, " ") != "a b" || !g.Answered || !g.Succeeded || g.Revision != 9 {
		t.Errorf("first: got %+v, want fence l=7, writes a b, succeeded at 9", g)
	}
	if g := got[1]; g.Answered || strings.Join(g.Writes, " ") != "d" {
		t.Errorf("second: got %+v, want d, unanswered", g)
	}
}

func TestReadTxnsRefusesWhatIsNotItsOwn(t *testing.T) {
	if got, err := ReadTxns(strings.NewReader("hello\n")); err == nil {
		t.Errorf("got %v, want an error", got)
	}
}

func TestRecorderOfALaterLifeContinuesTheFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "txns")
	for range 3 {
		file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		r, err := ContinueRecorder(file)
		if err != nil {
			t.Fatal(err)
		}
		put := &etcdpb.PutRequest{Key: []byte("k")}
		_, _ = r.Unary(t.Context(), put, nil, func(context.Context, any) (any, error) { return &etcdpb.PutResponse{}, nil })
		_, _ = r.Unary(t.Context(), put, nil, func(context.Context, any) (any, error) { return nil, errors.New("killed") })
		file.Close()
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	got, err := ReadTxns(file)
	if err != nil {
		t.Fatal(err)
	}
	answered := 0
	for _, txn := range got {
		if txn.Answered {
			answered++
		}
	}
	if len(got) != 6 || answered != 3 {
		t.Errorf("got %d transactions, %d answered; want 6 of which 3 are", len(got), answered)
	}
}
