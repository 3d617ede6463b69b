package coordinator

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/bind"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/devices"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/journal"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/outoftree"
	"github.com/shardsched/shardsched/coordinator/record"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/coordinator/tracing"
	"github.com/shardsched/shardsched/coordinator/tune"
	"github.com/shardsched/shardsched/coordinator/volumes"
)

// DefaultBatchSize is how many pods share a round to the workers at the most.
const DefaultBatchSize = 512

// SchedulerConfig is what a Scheduler is made of.
type SchedulerConfig struct {
	Cluster string
	// Log is told of what the scheduler does; zero: klog.
	Log klog.Logger
	// Term fences everything that the scheduler sends.
	Term uint64
	// Shards is the number of shards; 0: it follows from how many nodes there are at first.
	Shards int
	// Groups are the gates of pod groups.
	Groups groups.Gates
	// GangReservation has room held for the first gang that can't start.
	GangReservation bool
	// Kubelets says that kubelets run the pods, and end them by activeDeadlineSeconds: pods that end soon enough may use held room then.
	Kubelets bool
	// BatchSize is how many pods share a round at the most; 0: DefaultBatchSize.
	// It has no influence on decisions.
	BatchSize int
	// Way is how classes are asked about; nil: it is chosen by what batches take. It has no influence on decisions.
	Way *tune.Way
	// Profiles by scheduler name; nil: the default profile.
	Profiles map[string]*compile.Profile
	// Binder commits placements; nil: they count as committed at once, and no extender is asked to bind.
	Binder bind.Binder
	// BindGroup is how many placements one call of the Binder gets at the most, and BindCalls
	// how many calls are under way at once; 0: 100 and 4, for a binder whose placements share
	// commits. One that commits each by itself wants groups of 1, so that none waits for another.
	BindGroup, BindCalls int
	// VolumeWriter writes what placements make of volumes and claims before their pods are
	// bound; nil: nowhere, they count as bound at once.
	VolumeWriter volumes.Writer
	// VolumeController says that somebody else binds a claim to the volume that was found for
	// it, as Kubernetes' volume controller does.
	VolumeController bool
	// ClaimWriter writes what placements make of claims of devices before their pods are bound; nil: nowhere, it counts at
	// once.
	ClaimWriter devices.Writer
	// FreeClaims has each pod that is gone give its devices back, as a controller would where there is one.
	FreeClaims bool
	// ClaimStatus writes their status; nil: ClaimWriter does, and Binder what a pod's status says of its claim.
	ClaimStatus devices.StatusWriter
	// DisruptionController says that somebody else keeps the status of PodDisruptionBudgets, as
	// Kubernetes' disruption controller does. Otherwise it is worked out from their specs and the
	// pods.
	DisruptionController bool
	// Journal keeps queue entries; nil: nowhere.
	Journal journal.Store
	// Gangs keeps where the pods of a pod group go that are being bound; nil: nowhere, and the next leader decides those anew that are not
	// bound by then.
	Gangs journal.GangStore
	// History keeps what is remembered of decisions for the next leader, under the name Self; nil: nowhere.
	History journal.HistoryStore
	Self    string
	// Evictor carries preemptions out; nil: victims are gone at once.
	Evictor Evictor
	// SyncPreemption says that preemptors are not gated while their victims are told to leave
	// (the feature gate SchedulerAsyncPreemption is off).
	SyncPreemption bool
	// TopologyPreemption says that pod groups with topology constraints preempt as others do, where workload-aware preemption is on.
	TopologyPreemption bool
	// WholeGangs says that a PodGroup with disruptionMode PodGroup leaves whole for single pods, too, or stays.
	WholeGangs bool
	// Reporter tells the pods' owners what becomes of them; nil: nobody does.
	Reporter Reporter
	// Decisions receives every decision; nil: nowhere.
	Decisions *observe.DecisionLog
	// Recorder writes down what the loop takes in, decides and takes back; nil: nobody does.
	Recorder *record.Writer
	// Observe has it decide nothing: others do, and it is told what has come of that, by changes of objects and by Recall. Pods
	// without a node stay in the queue, and are explained as ever.
	Observe bool
	// PodNamed finds pods that are not this scheduler's, to explain that; nil: they are not known.
	PodNamed func(namespace, name string) *v1.Pod
	// PodKept finds in the store the pods that the scheduler leaves alone, to explain that; nil: there is none of that name. It is asked off
	// the loop. nil: PodNamed tells.
	PodKept func(ctx context.Context, namespace, name string) (*v1.Pod, error)
	// ReadPod reads a pod with all of its status, to explain how it came to its node; nil: objects have all of it. It is not called by
	// the loop.
	ReadPod func(ctx context.Context, namespace, name string) (*v1.Pod, error)
	// Before names who led before; empty: nobody, as far as is known.
	Before string
	// OutOfTree are plugins besides the built-in ones; nil: there are none.
	OutOfTree *outoftree.Config
	// Tracer makes spans of attempts; nil: none.
	Tracer *tracing.Tracer
	// Fanout is passed on to the workers' side; Shards, Cluster and Term are filled
	// in.
	Fanout fanout.Config
	// InitialBackoff and MaxBackoff bound how long a failed pod waits; MaxUnschedulable
	// is how long one that fits nowhere rests at the most. 0: upstream's 1 s, 10 s and
	// 5 minutes.
	InitialBackoff, MaxBackoff, MaxUnschedulable time.Duration
	// WaitBackoffOut has pods wait their backoff out though nothing else is to be decided (the
	// feature gate SchedulerPopFromBackoffQ is off).
	WaitBackoffOut bool
	// Heartbeat is told of the loop's turns; nil: nobody looks.
	Heartbeat *observe.Heartbeat
	// Now is the clock; nil: the real one.
	Now func() time.Time
	// QueueNow is the queue's clock, where that is another: a simulation's stands still, so
	// that how long it takes has no influence on what it decides: turns have no bounds then, and it does not
	// matter what an attempt costs. nil: Now.
	QueueNow func() time.Time
	// Frozen says that QueueNow stands still until nothing is left to do: no pod group waits for its backoff to be over. It is read with
	// each delivery, and all turns that begin before those changes are taken in have the time of the delivery before.
	Frozen bool
	// Registerer receives the metrics; nil: nowhere.
	Registerer prometheus.Registerer
	// Extenders are the configuration's. With ExtendersInline the loop waits for what they say,
	// so that a run does not depend on how fast they are; ExtendersCommit says that one that
	// binds has told those whose the pods are, so that the Binder is not to.
	Extenders                        []configv1.Extender
	ExtendersInline, ExtendersCommit bool
	extenderTransport                http.RoundTripper // nil: connections
	answerLimits                     answers.Limits    // tests make them smaller
	// Fence returns an error once somebody else may lead: it is asked before an extender is to
	// bind. nil: nobody does.
	Fence func() error
}

const (
	// shardRows is how many nodes a shard is to have: a class in one more shard costs as much as some 1,500 rows, and smaller tables
	// are no faster up to 200,000 nodes.
	shardRows = 8192
	// minShards and maxShards bound the number of shards that is chosen: a cluster that is small when a leader begins may grow, and
	// some workers may always have a share.
	minShards, maxShards = 8, 1024
)

// ShardsFor is the number of shards of a cluster of so many nodes, where nobody says how many there are to be.
func ShardsFor(nodes int) int { return min(max(nodes/shardRows, minShards), maxShards) }

// complete fills defaults in.
func (cfg *SchedulerConfig) complete() error {
	if cfg.Shards < 0 {
		return fmt.Errorf("number of shards is %d, expected 0 or more", cfg.Shards)
	}
	if cfg.BatchSize == 0 {
		cfg.BatchSize = DefaultBatchSize
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Profiles == nil {
		cfg.Profiles = map[string]*compile.Profile{v1.DefaultSchedulerName: rules.DefaultProfile(v1.DefaultSchedulerName)}
	}
	if cfg.Reporter == nil {
		cfg.Reporter = Silent{}
	}
	return nil
}
