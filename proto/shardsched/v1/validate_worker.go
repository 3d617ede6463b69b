package shardschedv1

import (
	"cmp"
	"strings"
)

// Validate checks that the deltas lead from the base to the generation.
func (x *ShardDeltas) Validate() error {
	if err := shard("shard", x.GetShard()); err != nil {
		return err
	}
	base, n := x.GetBaseGeneration(), uint64(len(x.GetDeltas()))
	if x.GetGeneration() < base || x.GetGeneration()-base != n {
		return wrong("generation", "expected base_generation %d plus %d deltas, got %d", base, n, x.GetGeneration())
	}
	return each("deltas", x.GetDeltas())
}

// Validate checks the extrema of a second round, and pins. How
// many of these there have to be the query tells.
func (x *ClassRequest) Validate() error {
	if x.GetClassId() == 0 {
		return wrong("class_id", "expected an id, got 0")
	}
	if !x.GetNormalise() && len(x.GetExtrema()) > 0 {
		return wrong("extrema", "expected none without normalise, got %d", len(x.GetExtrema()))
	}
	if err := x.validateCopies(); err != nil {
		return err
	}
	return each("pins", x.GetPins())
}

// Validate checks a round for one worker.
func (x *EvaluateRequest) Validate() error {
	if err := path("cluster", x.GetCluster()); err != nil {
		return err
	}
	if err := term("term", x.GetTerm()); err != nil {
		return err
	}
	if err := each("shards", x.GetShards()); err != nil {
		return err
	}
	if i, twice := repeatedShard(x.GetShards()); twice {
		return at("shards", i, wrong("shard", "expected each shard once, got %d again", x.GetShards()[i].Shard))
	}
	if err := each("queries", x.GetQueries()); err != nil {
		return err
	}
	if err := each("variants", x.GetVariants()); err != nil {
		return err
	}
	if err := each("classes", x.GetClasses()); err != nil {
		return err
	}
	if n, asked := len(x.GetVariants()), len(x.GetClasses())+len(x.GetPreemptions()); n > asked {
		return wrong("variants", "expected at most one for each of %d classes, got %d", asked, n)
	}
	if n := len(x.GetCandidates()); n != len(x.GetClasses()) {
		return wrong("candidates", "expected one for each of %d classes, got %d", len(x.GetClasses()), n)
	}
	for i, n := range x.GetCandidates() {
		if err := within("", int64(n), 1, MaxCandidates); err != nil {
			return at("candidates", i, err)
		}
	}
	return each("preemptions", x.GetPreemptions())
}

// repeatedShard finds a shard that stands there a second time. Sorted shards, which
// are what coordinators send, cost no memory.
func repeatedShard(list []*ShardDeltas) (int, bool) {
	if strictlyAscending(list, func(a, b *ShardDeltas) bool { return a.Shard < b.Shard }) {
		return 0, false
	}
	seen := make(map[uint32]struct{}, len(list))
	for i, s := range list {
		if _, ok := seen[s.Shard]; ok {
			return i, true
		}
		seen[s.Shard] = struct{}{}
	}
	return 0, false
}

func strictlyAscending[T any](list []T, less func(a, b T) bool) bool {
	for i := 1; i < len(list); i++ {
		if !less(list[i-1], list[i]) {
			return false
		}
	}
	return true
}

// Validate checks plugin, text and count.
func (x *ReasonCount) Validate() error {
	if err := name("plugin", x.GetPlugin()); err != nil {
		return err
	}
	return x.validateCount()
}

// validateCount checks text and count.
func (x *ReasonCount) validateCount() error {
	if err := text("plugin", x.GetPlugin(), maxText); err != nil {
		return err
	}
	if x.GetReason() == "" {
		return wrong("reason", "expected a text, got none")
	}
	if err := text("reason", x.GetReason(), maxMessage); err != nil {
		return err
	}
	if x.GetNodes() == 0 {
		return wrong("nodes", "expected 1 or more, got 0")
	}
	return nil
}

// compareReasons orders by plugin, then text. The two may stand there twice, resolvable
// and not.
func compareReasons(a, b *ReasonCount) int {
	return cmp.Or(strings.Compare(a.Plugin, b.Plugin), strings.Compare(a.Reason, b.Reason))
}

// Validate checks a class's answer, and that its counts agree.
func (x *ClassResult) Validate() error {
	if x.GetClassId() == 0 {
		return wrong("class_id", "expected an id, got 0")
	}
	if x.GetFeasible() > x.GetRows() {
		return wrong("feasible", "expected at most the %d rows, got %d", x.GetRows(), x.GetFeasible())
	}
	if x.GetHopeless() > x.GetRows()-x.GetFeasible() {
		return wrong("hopeless", "expected at most the %d rows that are in no group, got %d", x.GetRows()-x.GetFeasible(), x.GetHopeless())
	}
	if x.GetOverflow() && x.GetGroups() > 0 {
		return wrong("groups", "expected none with overflow, got %d", x.GetGroups())
	}
	if len(x.GetExtrema()) > 0 && x.GetKeyScores() > 0 {
		return wrong("key_scores", "expected none beside extrema, got %d", x.GetKeyScores())
	}
	if err := within("key_domains", int64(x.GetKeyDomains()), 0, MaxDomainKeys); err != nil {
		return err
	}
	if err := x.GetCopies().validateRows(x.GetRows()); err != nil {
		return in("copies", err)
	}
	list := x.GetReasons()
	for i, r := range list {
		if err := r.Validate(); err != nil {
			return at("reasons", i, err)
		}
		if i > 0 && compareReasons(list[i-1], r) > 0 {
			return at("reasons", i, wrong("", "expected reasons sorted by plugin and text"))
		}
	}
	return each("measures", x.GetMeasures())
}

// Validate checks an answer: either what is missing, or results.
func (x *EvaluateResponse) Validate() error {
	for i, s := range x.GetNeedSnapshots() {
		if err := shard("", s); err != nil {
			return at("need_snapshots", i, err)
		}
	}
	missing := len(x.GetNeedSnapshots()) + len(x.GetNeedClasses())
	for i, id := range x.GetFailedClasses() {
		if id == 0 || missing > 0 {
			return at("failed_classes", i, wrong("", "expected an id where nothing is missing, got %d", id))
		}
	}
	if missing > 0 && len(x.GetResults())+len(x.GetPreemptions()) > 0 {
		return wrong("results", "expected none where snapshots or classes are missing, got %d", len(x.GetResults())+len(x.GetPreemptions()))
	}
	if err := each("results", x.GetResults()); err != nil {
		return err
	}
	if err := x.validateColumns(); err != nil {
		return err
	}
	return each("preemptions", x.GetPreemptions())
}

// Validate checks cluster, term and shard.
func (x *SnapshotHeader) Validate() error {
	if err := path("cluster", x.GetCluster()); err != nil {
		return err
	}
	if err := term("term", x.GetTerm()); err != nil {
		return err
	}
	return shard("shard", x.GetShard())
}

// Validate checks one chunk by itself: the header where it has one, and its rows, which
// ascend. That only the first chunk has a header, and that rows ascend from chunk to chunk,
// is for the reader of the stream to see.
func (x *LoadSnapshotRequest) Validate() error {
	if x.GetHeader() != nil {
		if err := x.GetHeader().Validate(); err != nil {
			return in("header", err)
		}
	}
	list := x.GetRows()
	for i, r := range list {
		if err := r.Validate(); err != nil {
			return at("rows", i, err)
		}
		if i > 0 && list[i-1].Row >= r.Row {
			return at("rows", i, wrong("row", "expected more than %d, got %d", list[i-1].Row, r.Row))
		}
	}
	if err := each("counters", x.GetCounters()); err != nil {
		return err
	}
	if err := each("usages", x.GetUsages()); err != nil {
		return err
	}
	return each("devices", x.GetDevices())
}

// Validate checks a worker's record.
func (x *WorkerRegistration) Validate() error {
	if err := path("id", x.GetId()); err != nil {
		return err
	}
	if err := hostPort("address", x.GetAddress()); err != nil {
		return err
	}
	if err := within("cores", int64(x.GetCores()), 1, maxCores); err != nil {
		return err
	}
	return text("version", x.GetVersion(), maxText)
}
