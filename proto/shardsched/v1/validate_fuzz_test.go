package shardschedv1

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// fuzz feeds bytes to Unmarshal and Validate. Bytes may be refused by either, with an
// error that leads to a field; what passes has to pass again after a round trip.
func fuzz[M message](f *testing.F, empty func() M, seeds ...M) {
	for _, s := range seeds {
		b, err := proto.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m := empty()
		if proto.Unmarshal(b, m) != nil {
			return
		}
		if err := m.Validate(); err != nil {
			checkPath(t, m, err)
			return
		}
		again := empty()
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatalf("marshal what was valid: %v", err)
		}
		if err := proto.Unmarshal(b, again); err != nil {
			t.Fatalf("unmarshal what was valid: %v", err)
		}
		if err := again.Validate(); err != nil {
			t.Fatalf("after a round trip: got %q, want no error", err)
		}
	})
}

func FuzzEvaluateRequest(f *testing.F) {
	fuzz(f, func() *EvaluateRequest { return new(EvaluateRequest) }, validEvaluate())
}

func FuzzEvaluateResponse(f *testing.F) {
	fuzz(f, func() *EvaluateResponse { return new(EvaluateResponse) },
		validResponse(), &EvaluateResponse{NeedSnapshots: []uint32{1}, NeedClasses: []uint64{2}})
}

func FuzzLoadSnapshotRequest(f *testing.F) {
	fuzz(f, func() *LoadSnapshotRequest { return new(LoadSnapshotRequest) }, validSnapshot())
}

func FuzzDelta(f *testing.F) {
	fuzz(f, func() *Delta { return new(Delta) }, addPod(), setNode(), changePod(), removePod(), setCounterOfPods(), setSlice(), setSharedSlice(), useDevices(), removeSlice(), &Delta{Change: &Delta_RemoveNode{}})
}

func FuzzQuery(f *testing.F) {
	fuzz(f, func() *Query { return new(Query) }, validQuery(), validVolumes())
}

func FuzzApplyRequest(f *testing.F) {
	fuzz(f, func() *ApplyRequest { return new(ApplyRequest) },
		&ApplyRequest{Objects: []*Object{{Ref: &ObjectRef{Kind: "Pod", Namespace: "d", Name: "a"}, Raw: []byte("{}")}}})
}

func FuzzDeleteRequest(f *testing.F) {
	fuzz(f, func() *DeleteRequest { return new(DeleteRequest) }, &DeleteRequest{Refs: []*ObjectRef{{Kind: "Node", Name: "n1"}}})
}

func FuzzListObjectsRequest(f *testing.F) {
	fuzz(f, func() *ListObjectsRequest { return new(ListObjectsRequest) }, &ListObjectsRequest{Kind: "Pod", Namespace: "d", Limit: 500})
}

func FuzzListPodGroupsRequest(f *testing.F) {
	fuzz(f, func() *ListPodGroupsRequest { return new(ListPodGroupsRequest) }, &ListPodGroupsRequest{Namespace: "d", State: "gated", Limit: 500})
}

func FuzzExplainPodGroupRequest(f *testing.F) {
	fuzz(f, func() *ExplainPodGroupRequest { return new(ExplainPodGroupRequest) },
		&ExplainPodGroupRequest{Namespace: "d", Name: "a", Limit: 500, ContinueToken: "1/a"})
}

func FuzzWatchRequest(f *testing.F) {
	fuzz(f, func() *WatchRequest { return new(WatchRequest) }, &WatchRequest{Kind: "Node", AfterRevision: 4})
}

func FuzzExplainRequest(f *testing.F) {
	fuzz(f, func() *ExplainRequest { return new(ExplainRequest) }, &ExplainRequest{Namespace: "d", Name: "a", Top: 5})
}

func FuzzWorkerRegistration(f *testing.F) {
	fuzz(f, func() *WorkerRegistration { return new(WorkerRegistration) }, &WorkerRegistration{Id: "w", Address: "h:1", Cores: 1})
}

func FuzzLeaderRecord(f *testing.F) {
	fuzz(f, func() *LeaderRecord { return new(LeaderRecord) }, &LeaderRecord{Id: "l", Address: "h:1"})
}

func FuzzHistoryChunk(f *testing.F) {
	fuzz(f, func() *HistoryChunk { return new(HistoryChunk) }, &HistoryChunk{
		Leader: "a", Decisions: []*PastDecision{{Decision: &Decision{Uid: "u"}}}, Departures: []*Departure{{Uid: "u", Time: &timestamppb.Timestamp{}}},
	})
}

func FuzzQueueEntry(f *testing.F) {
	fuzz(f, func() *QueueEntry { return new(QueueEntry) }, validEntry())
}

func FuzzGangCommit(f *testing.F) {
	fuzz(f, func() *GangCommit { return new(GangCommit) }, validCommit())
}

func FuzzRecord(f *testing.F) {
	fuzz(f, func() *Record { return new(Record) }, validDecisionRecord(), validJudgementRecord(), &Record{What: &Record_Begin{Begin: &RecordBegin{Format: 1}}})
}
