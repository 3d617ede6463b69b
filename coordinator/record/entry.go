package record

import (
	"fmt"
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// entry is what the loop hands over: one of begin, changed, decision, bound, back, released, nominated,
// judgement, end and last is set.
type entry struct {
	at time.Time

	begin *pb.RecordBegin
	all   *objects.Snapshot

	changed   objects.Object
	gone, own bool

	decision, bound, back *pb.Decision
	failed, waits         bool
	err                   error
	objects               []objects.Object

	released  *pb.RecordReleased
	nominated *pb.RecordNominated
	judgement *pb.RecordJudgement

	end  string
	last bool
}

// records are the records of an entry: one, but for a begin.
func (e *entry) records() iter.Seq2[*pb.Record, error] {
	return func(yield func(*pb.Record, error) bool) {
		r, err := e.record()
		if !yield(r, err) || err != nil || e.all == nil {
			return
		}
		for obj := range everything(e.all) {
			change, err := changeOf(obj, false, false)
			if !yield(&pb.Record{Time: r.Time, What: change}, err) || err != nil {
				return
			}
		}
	}
}

// everything are the objects of a cluster in the order in which the loop takes them in.
func everything(all *objects.Snapshot) iter.Seq[objects.Object] {
	return func(yield func(objects.Object) bool) {
		for _, obj := range all.Cluster {
			if !yield(obj) {
				return
			}
		}
		for _, n := range all.Nodes {
			if !yield(n) {
				return
			}
		}
		for _, p := range all.Pods {
			if !yield(p) {
				return
			}
		}
	}
}

// record is the first record of an entry.
func (e *entry) record() (r *pb.Record, err error) {
	r = &pb.Record{Time: timestamppb.New(e.at)}
	switch {
	case e.begin != nil:
		r.What = &pb.Record_Begin{Begin: e.begin}
	case e.changed != nil:
		r.What, err = changeOf(e.changed, e.gone, e.own)
	case e.decision != nil:
		d := &pb.RecordDecision{Decision: e.decision, Failed: e.failed}
		d.Assumed, err = encoded(e.objects)
		r.What = &pb.Record_Decision{Decision: d}
	case e.bound != nil:
		b := &pb.RecordBound{Seq: e.bound.Seq, Uid: e.bound.Uid, Node: e.bound.Node}
		b.Latest, err = encoded(e.objects)
		r.What = &pb.Record_Bound{Bound: b}
	case e.back != nil:
		t := &pb.RecordTakenBack{Seq: e.back.Seq, Uid: e.back.Uid, Node: e.back.Node, Waits: e.waits, Message: fmt.Sprint(e.err)}
		t.Latest, err = encoded(e.objects)
		r.What = &pb.Record_TakenBack{TakenBack: t}
	case e.released != nil:
		r.What = &pb.Record_Released{Released: e.released}
	case e.nominated != nil:
		r.What = &pb.Record_Nominated{Nominated: e.nominated}
	case e.judgement != nil:
		r.What = &pb.Record_Judgement{Judgement: e.judgement}
	default:
		r.What = &pb.Record_End{End: &pb.RecordEnd{Reason: e.end}}
	}
	return r, err
}

func changeOf(obj objects.Object, gone, own bool) (*pb.Record_Change, error) {
	ref := objects.RefOf(obj)
	c := &pb.RecordChange{
		Ref: &pb.ObjectRef{Kind: string(ref.Kind), Namespace: ref.Namespace, Name: ref.Name},
		Uid: string(obj.GetUID()), Own: own,
	}
	var err error
	if !gone {
		c.Raw, err = objects.Encode(obj)
	}
	return &pb.Record_Change{Change: c}, err
}

func encoded(list []objects.Object) (out [][]byte, err error) {
	for _, obj := range list {
		raw, err := objects.Encode(obj)
		if err != nil {
			return nil, err
		}
		out = append(out, raw)
	}
	return out, nil
}
