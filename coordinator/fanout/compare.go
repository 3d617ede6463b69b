package fanout

import (
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/scorer"
)

// With Config.Compare an answer counts only if another worker, or the own tables where there is none, has
// answered the same for the same shards. So of two owners one may lie as it likes: nothing comes of it.

// compare takes a part's answer where those that were asked agree. Otherwise the own tables answer, and those
// that say something else are in quarantine.
func (r *round) compare(p *part) {
	if r.agree(p) {
		p.tracker.settled = true
		r.settle(p, p.primary)
		return
	}
	for _, a := range append([]*attempt{p.primary}, p.backups...) {
		if a.session == nil {
			continue
		}
		if err := r.verifyAll(a); err != nil {
			a.session.failed(r.f.cfg.Clock.Now())
			r.f.suspect(r.ctx, a.session, err)
		}
	}
	r.decideHere(p)
}

// decideHere has the own tables answer for a part, whatever others say.
func (r *round) decideHere(p *part) {
	r.drop(p.primary)
	r.drop(p.backups...)
	p.tracker.primary, p.tracker.doubted = failed, true
	r.startLocalBackup(p)
}

// agree tells whether the backups have answered all that the primary has, and alike.
func (r *round) agree(p *part) bool {
	gaps := len(p.primary.gaps)
	for _, b := range p.backups {
		gaps += len(b.gaps)
	}
	if gaps > 0 {
		return false
	}
	for i := p.from; i < p.to; i++ {
		if err := r.differ(p, i); err != nil {
			klog.FromContext(r.ctx).Error(err, "Two owners of shards do not agree, the own tables decide",
				"worker", p.primary.session.member.ID, "shards", p.shards)
			return false
		}
	}
	return true
}

// differ says in what the answers to a class are not the same; nil: in nothing.
func (r *round) differ(p *part, class int) error {
	if len(r.dry) > 0 {
		both := r.dryRun(p.backups[0], class)
		for _, b := range p.backups[1:] {
			both.Merge(r.dryRun(b, class))
		}
		return r.dryRun(p.primary, class).Differs(both)
	}
	var both scorer.Result
	both.Reset(r.asks[class].Class.ID(), int(p.candidates[class]))
	for _, b := range p.backups {
		both.Merge(&b.answers[class-p.from].Result)
	}
	return p.primary.answers[class-p.from].Result.Differs(&both)
}

// dryRun is what an attempt has found.
func (r *round) dryRun(a *attempt, class int) *scorer.PreemptionResult {
	out := &scorer.PreemptionResult{}
	out.Reset(r.dry[class].Class.ID(), r.dry[class].Preemption.Limit())
	if a.session == nil {
		out.Merge(&a.found[class-a.part.from])
		return out
	}
	for _, p := range a.pieces {
		if p.from <= class && class < p.from+len(p.preemptions) {
			out.AddProto(p.preemptions[class-p.from], r.tie)
		}
	}
	return out
}

// verifyAll compares all that a worker has said with the own tables.
func (r *round) verifyAll(a *attempt) error {
	for i := a.part.from; i < a.part.to; i++ {
		shards := a.answered(i)
		if len(shards) == 0 {
			continue
		}
		var err error
		if len(r.dry) > 0 {
			err = r.auditDryRun(r.ctx, a, i, shards, "compare")
		} else {
			ask := r.askOf(a.part, i)
			err = r.audit(r.ctx, a, &ask, shards, &a.answers[i-a.part.from].Result, "compare")
		}
		if err != nil {
			return err
		}
	}
	return nil
}
