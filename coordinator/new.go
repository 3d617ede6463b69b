package coordinator

import (
	"cmp"
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/aside"
	"github.com/shardsched/shardsched/coordinator/bind"
	"github.com/shardsched/shardsched/coordinator/choice"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/devices"
	"github.com/shardsched/shardsched/coordinator/domains"
	"github.com/shardsched/shardsched/coordinator/extender"
	"github.com/shardsched/shardsched/coordinator/extenders"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/intake"
	"github.com/shardsched/shardsched/coordinator/journal"
	"github.com/shardsched/shardsched/coordinator/nominees"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/outoftree"
	"github.com/shardsched/shardsched/coordinator/preempt"
	"github.com/shardsched/shardsched/coordinator/quarantine"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/coordinator/state"
	"github.com/shardsched/shardsched/coordinator/volumes"
)

// NewScheduler makes a scheduler with an empty cluster.
func NewScheduler(cfg SchedulerConfig) (*Scheduler, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	free := cfg.QueueNow != nil // its clock stands still, or is nobody's to compare with
	if !free {
		cfg.QueueNow = cfg.Now
	}
	var frozen *frozenClock
	if cfg.Frozen {
		frozen = newFrozenClock(cfg.QueueNow)
		cfg.QueueNow = frozen.now
	}
	s := &Scheduler{
		frozen:      frozen,
		cfg:         cfg,
		state:       state.New(cmp.Or(cfg.Shards, minShards)),
		compiler:    compile.New(),
		inbox:       newInbox(),
		journal:     journal.New(cfg.Journal),
		kept:        journal.NewHistory(cfg.History, cfg.Self),
		gangs:       journal.NewGangs(cfg.Gangs),
		budget:      budget{free: free},
		ended:       make(chan struct{}),
		binds:       binds{pending: map[types.UID]*pendingBind{}},
		preemptions: preemptions{gated: map[types.UID]struct{}{}, whyLeaving: map[types.UID]string{}},
		batch:       batch{size: newBatchSize(cfg.BatchSize)},
		since:       cfg.Now(),
		failing:     map[types.UID]struct{}{},
		groups:      groups.New(cfg.Groups),
	}
	s.state.UseGroups(s.groups)
	if s.groupReporter, _ = cfg.Reporter.(GroupReporter); s.groupReporter != nil {
		s.groups.KeepNews()
	}
	s.domains = domains.New(s.state)
	s.history = observe.NewHistory(s.kept)
	if !free {
		s.state.Bound(state.Bounded())
	}
	s.state.UseAnnotations(compile.NodeAnnotations(cfg.Profiles))
	log := cfg.Log
	if log.GetSink() == nil {
		log = klog.Background()
	}
	s.life, s.stop = context.WithCancel(klog.NewContext(context.Background(), log))
	s.metrics = observe.NewMeters(cfg.Registerer, cfg.Term)
	s.bugs = observe.NewBugs(s.metrics)
	s.tuning = newTuning(cfg.Way, s.metrics)
	s.guard = &quarantine.Guard{
		Suspects: quarantine.NewSuspects(func() time.Time { return s.cfg.Now() }),
		Compile: func(p *v1.Pod, prof *compile.Profile) (*compile.Class, error) {
			return s.compiler.Class(p, prof, s.state)
		},
		Register: s.state.RegisterTerms, Met: s.bugs.Met,
		Forget: func(c *compile.Class) {
			s.answers.Forget(c)
			s.preempt.Forget(c.ID())
		},
		Unfinished: func(class uint64, panicked any) bool { return s.aside.NoteUnfinished(class, panicked) },
	}
	s.reads, s.arrivals = observe.NewReads(func(f func()) { s.inbox.put(f) }, s.await, s.bugs), make(chan struct{}, arrivalsAtOnce)
	if err := s.addPlugins(&cfg); err != nil {
		return nil, err
	}
	if err := s.addQueue(&cfg); err != nil {
		return nil, errors.Join(err, s.outOfTree.Close())
	}
	s.addWorkers(&cfg)
	s.admission = newAdmission(&cfg)
	return s, nil
}

// addPlugins adds who else has a say in a pod's node, and who binds pods.
func (s *Scheduler) addPlugins(cfg *SchedulerConfig) (err error) {
	s.state.OpenDevices(devices.Config{Now: cfg.Now, NewUID: uuid.NewUUID, PodGroup: s.podGroups(),
		Mates: cfg.Groups.Workload})
	s.claims = s.state.Claims().Binder(devices.BinderConfig{
		Writer: cfg.ClaimWriter, Status: cfg.ClaimStatus, Meter: claimMeter{s}, Now: cfg.Now,
		Pending: func(pod *v1.Pod, node string) { s.inbox.put(func() { s.cfg.Reporter.AwaitsDevices(pod, node) }) },
	})
	s.cycles = bind.New(bind.Config{
		Binder: cfg.Binder, Claims: s.claims,
		Volumes: s.state.Storage().Binder(volumes.BinderConfig{Writer: cfg.VolumeWriter, Completes: !cfg.VolumeController}),
		Group:   cfg.BindGroup, Calls: cfg.BindCalls, Fence: cfg.Fence, CommitExtended: !cfg.ExtendersCommit,
		Now: cfg.Now, Report: s.outcome, Progress: s.bindProgress, Refused: oneNode,
	})
	s.extenders, err = extenders.New(extenders.Config{
		Extenders: cfg.Extenders, BindNothing: cfg.Binder == nil, Inline: cfg.ExtendersInline, Transport: cfg.extenderTransport,
		Life: s.life, Loop: forReviewers{s}, Cache: s.state.Cache, Metrics: s.metrics.Set(),
	})
	if err != nil {
		return err
	}
	s.outOfTree, err = outoftree.New(s.life, cfg.OutOfTree, outoftree.Options{
		Loop: forReviewers{s}, Cache: s.state.Cache, Metrics: s.metrics.Set(), Meter: s.metrics.Framework(), Now: cfg.Now,
		Extenders: extender.Framed(s.extenders.List()), Acts: s.cycles.Plugin, PreBinding: s.cycles.PreBinding(), Met: s.bugs.Plugin,
	})
	return err
}

// addQueue adds the queue, and what knows the pods that wait there.
func (s *Scheduler) addQueue(cfg *SchedulerConfig) error {
	plugins, err := s.outOfTree.ForQueue(s.life, s.changed)
	if err != nil {
		return err
	}
	hints := state.Hints{State: s.state, Profiles: cfg.Profiles, Preemptors: s.preemptions.gated, WholeGangs: cfg.WholeGangs}
	s.queue = queue.New(queue.Config{
		OutOfTree: plugins, Met: s.bugs.Hint,
		Now: cfg.QueueNow, InitialBackoff: cfg.InitialBackoff, MaxBackoff: cfg.MaxBackoff,
		MaxUnschedulable: cfg.MaxUnschedulable, WaitBackoffOut: cfg.WaitBackoffOut, Frozen: cfg.Frozen,
		Meter: s.metrics.Queue(), Timer: cfg.Now,
		Profiles: hints, Plugins: rules.QueuePlugins(hints), Groups: s.groups, GaveUp: s.gaveUp,
		TellByLongest: cfg.GangReservation && cfg.Kubelets,
	})
	s.nominees = nominees.New(s.queue, s.state.Cache, s.state.Storage())
	s.intake = intake.New(intake.Config{
		State: s.state, Nominees: s.nominees, Loop: forIntake{s}, Meters: s.metrics, Recorder: cfg.Recorder, Life: s.life,
	})
	s.state.SetHooks(state.Hooks{
		Changed: s.outOfTree.Changed, Pending: s.queue.All, Mend: s.intake.Mend,
		Panicked: func() { s.metrics.Panicked(intake.WhileTakingIn) },
	})
	s.state.FollowBudgets(!cfg.DisruptionController)
	return nil
}

// addWorkers adds the workers' side, and the decision engine, which asks for what it lacks.
func (s *Scheduler) addWorkers(cfg *SchedulerConfig) {
	f := cfg.Fanout
	f.Cluster, f.Term, f.Shards = cfg.Cluster, cfg.Term, s.state
	f.Registerer = cfg.Registerer
	f.OnPasses = s.metrics.Passed
	s.fanout = fanout.New(f)
	s.evaluate = s.fanout.Evaluate
	s.answers = answers.New(answers.Config{
		Tables: s.state.Cache, BatchSize: cfg.BatchSize, Limits: cfg.answerLimits, Recycle: s.fanout.Recycle,
		Searches: s.fanout.Searches(),
	})
	s.state.Watch(s.answers.Log())
	s.aside = aside.New(aside.Config{
		State: s.state, Queue: s.queue, Evaluator: s.answers.Evaluator, Now: func() time.Time { return s.cfg.Now() },
		Over: s.budget.over, Free: s.budget.free, Decided: func() uint64 { return s.seq },
	})
	s.preempt = preempt.NewFinder(preempt.Config{
		Nodes: s.state.Cache, Budgets: s.state.Budgets(), Nominees: s.nominees, Groups: s.groups, WholeGangs: cfg.WholeGangs,
		Engine: s.answers, Workers: s.fanout, BatchSize: cfg.BatchSize, Now: func() time.Time { return s.cfg.QueueNow() }, Lanes: s.extenders,
		Steps:    func() int64 { return s.aside.StepsFor(0) },
		Attempts: s.metrics.PreemptionsTried(), DryRuns: s.metrics.DryRuns(), Rows: s.metrics.DryRunRows(),
	})
	s.chooser = choice.New(choice.Config{
		State: s.state, Engine: s.answers, Nominees: s.nominees, OutOfTree: s.outOfTree, Workers: s.fanout,
		Fetch: s.fetchOne, Aside: s.aside, Preempt: s.preempt, Charge: s.chargeDryRun,
		Meter: s.metrics.Framework(), Now: func() time.Time { return s.cfg.Now() },
	})
}
