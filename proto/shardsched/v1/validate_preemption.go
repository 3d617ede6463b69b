package shardschedv1

import "cmp"

const (
	// MaxBudget bounds the numbers of budgets.
	MaxBudget = 1 << 22

	maxPodBudgets = 1 << 10
)

// Validate checks number, budgets and counters of a pod.
func (x *PlacedPod) Validate() error {
	if x.GetNumber() == 0 {
		return wrong("number", "expected 1 or more, got 0")
	}
	if err := natural("start_micros", x.GetStartMicros()); err != nil {
		return err
	}
	if n := len(x.GetBudgets()); n > maxPodBudgets {
		return wrong("budgets", "expected at most %d, got %d", maxPodBudgets, n)
	}
	for i, id := range x.GetBudgets() {
		if err := within("", int64(id), 1, MaxBudget); err != nil {
			return at("budgets", i, err)
		}
		if i > 0 && x.Budgets[i-1] >= id {
			return at("budgets", i, wrong("", "expected more than %d, got %d", x.Budgets[i-1], id))
		}
	}
	if x.GetUsage() != nil && x.GetUsageRef() != 0 {
		return wrong("usage_ref", "expected 0 beside a usage, got %d", x.GetUsageRef())
	}
	if err := x.GetUsage().Validate(); err != nil {
		return in("usage", err)
	}
	if err := countersIn("leaving", x.GetLeaving()); err != nil {
		return err
	}
	for i, s := range x.GetShared() {
		if err := counter("counter", s.GetCounter()); err != nil {
			return at("shared", i, err)
		}
		if i > 0 && compareShared(x.Shared[i-1], s) >= 0 {
			return at("shared", i, wrong("", "expected them sorted by counter and token, each once"))
		}
	}
	return nil
}

func compareShared(a, b *SharedCount) int {
	return cmp.Or(cmp.Compare(a.GetCounter(), b.GetCounter()), cmp.Compare(a.GetToken(), b.GetToken()))
}

// validatePod checks the pod that is added.
func (x *Delta) validatePod() error {
	p := x.GetPod()
	if p == nil {
		return nil
	}
	if err := p.Validate(); err != nil {
		return in("pod", err)
	}
	if p.GetUsage() != nil || p.GetUsageRef() != 0 {
		return wrong("pod.usage", "expected none beside add_pod")
	}
	return nil
}

// validatePods checks the columns of pods.
func (x *CounterColumn) validatePods() error {
	n := len(x.GetPodRows())
	if len(x.GetPodNumbers()) != n {
		return wrong("pod_numbers", "expected %d as in pod_rows, got %d", n, len(x.GetPodNumbers()))
	}
	if v := len(x.GetPodValues()); v != 0 && v != n {
		return wrong("pod_values", "expected none or %d as in pod_rows, got %d", n, v)
	}
	for i := range n {
		if err := row("", x.PodRows[i]); err != nil {
			return at("pod_rows", i, err)
		}
		if x.PodNumbers[i] == 0 {
			return at("pod_numbers", i, wrong("", "expected 1 or more, got 0"))
		}
		if i > 0 && cmp.Or(cmp.Compare(x.PodRows[i-1], x.PodRows[i]), cmp.Compare(x.PodNumbers[i-1], x.PodNumbers[i])) >= 0 {
			return at("pod_numbers", i, wrong("", "expected pods sorted by row and number, each once"))
		}
	}
	for i, v := range x.GetPodValues() {
		if err := signed("", v, maxCounterValue); err != nil {
			return at("pod_values", i, err)
		}
	}
	return nil
}

// Validate checks id and count.
func (x *Budget) Validate() error { return within("id", int64(x.GetId()), 1, MaxBudget) }

// Validate checks a dry run's question.
func (x *PreemptionRequest) Validate() error {
	if x.GetClassId() == 0 {
		return wrong("class_id", "expected an id, got 0")
	}
	if err := natural("now_micros", x.GetNowMicros()); err != nil {
		return err
	}
	for i, b := range x.GetBudgets() {
		if err := b.Validate(); err != nil {
			return at("budgets", i, err)
		}
		if i > 0 && x.Budgets[i-1].Id >= b.Id {
			return at("budgets", i, wrong("id", "expected more than %d, got %d", x.Budgets[i-1].Id, b.Id))
		}
	}
	if len(x.GetSkipShards()) != len(x.GetSkipRows()) {
		return wrong("skip_rows", "expected %d as in skip_shards, got %d", len(x.GetSkipShards()), len(x.GetSkipRows()))
	}
	for i := range x.GetSkipShards() {
		if err := shard("", x.SkipShards[i]); err != nil {
			return at("skip_shards", i, err)
		}
		if err := row("", x.SkipRows[i]); err != nil {
			return at("skip_rows", i, err)
		}
		if i > 0 && cmp.Or(cmp.Compare(x.SkipShards[i-1], x.SkipShards[i]), cmp.Compare(x.SkipRows[i-1], x.SkipRows[i])) >= 0 {
			return at("skip_rows", i, wrong("", "expected rows sorted by shard and row, each once"))
		}
	}
	if err := each("pins", x.GetPins()); err != nil {
		return err
	}
	if err := each("measures", x.GetMeasures()); err != nil {
		return err
	}
	return within("candidates", int64(x.GetCandidates()), 1, MaxCandidates)
}

// Validate checks a candidate by itself.
func (x *PreemptionCandidate) Validate() error {
	if err := shard("shard", x.GetShard()); err != nil {
		return err
	}
	if err := row("row", x.GetRow()); err != nil {
		return err
	}
	n := len(x.GetVictims())
	if n == 0 {
		return wrong("victims", "expected at least one, got none")
	}
	for i, number := range x.GetVictims() {
		if number == 0 {
			return at("victims", i, wrong("", "expected 1 or more, got 0"))
		}
	}
	if int(x.GetViolations()) > n {
		return wrong("violations", "expected at most the %d victims, got %d", n, x.GetViolations())
	}
	return natural("earliest_start", x.GetEarliestStart())
}

// Validate checks a dry run's answer.
func (x *PreemptionResult) Validate() error {
	if x.GetClassId() == 0 {
		return wrong("class_id", "expected an id, got 0")
	}
	if uint64(len(x.GetCandidates())) > uint64(x.GetTried()) {
		return wrong("candidates", "expected at most the %d rows tried, got %d", x.GetTried(), len(x.GetCandidates()))
	}
	if err := each("candidates", x.GetCandidates()); err != nil {
		return err
	}
	if n := len(x.GetFailingRows()); len(x.GetFailingShards()) != n {
		return wrong("failing_shards", "expected one for each of the %d rows, got %d", n, len(x.GetFailingShards()))
	} else if uint64(n) > uint64(x.GetTried()) {
		return wrong("failing_rows", "expected at most the %d rows tried, got %d", x.GetTried(), n)
	}
	for i, r := range x.GetReasons() {
		if err := r.validateCount(); err != nil {
			return at("reasons", i, err)
		}
		if i > 0 && compareReasons(x.Reasons[i-1], r) > 0 {
			return at("reasons", i, wrong("", "expected reasons sorted by plugin and text"))
		}
	}
	return nil
}
