package conformance

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/bench/judge/oracle"
)

// Log is a cluster and what our scheduler decided in it, in order.
type Log struct {
	// Config is a KubeSchedulerConfiguration file's text; empty: there is none.
	Config []byte
	// Objects is the cluster: pods with spec.nodeName are on their nodes from the start, the
	// others are those that were decided. Objects that no plugin looks at are left out.
	Objects   []oracle.Object
	Decisions []Decision
	// Every is after how many decisions one is compared node by node, beyond what it
	// tells; 0: each.
	Every int
	// Most is the number of differences to stop at; 0: the first.
	Most int
}

// Replay holds a log against upstream.
func (l *Log) Replay(ctx context.Context) (_ *Result, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := newReplay(ctx, l.Config, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.own.end()) }()
	if err := l.load(r); err != nil {
		return nil, err
	}
	r.every = max(l.Every, 1)
	for _, d := range l.Decisions {
		if err := r.hold(ctx, 0, d); err != nil {
			return nil, fmt.Errorf("decision %d: %w", d.Seq, err)
		}
		if len(r.result.Differences) > l.Most {
			break
		}
	}
	return &r.result, nil
}

// load puts the objects in. A simulation gives UIDs to pods that have none; the log tells
// them.
func (l *Log) load(r *replay) error {
	uids := map[string]types.UID{}
	for _, d := range l.Decisions {
		uids[d.Pod] = types.UID(d.UID)
	}
	for _, obj := range l.Objects {
		switch pod, ok := obj.(*v1.Pod); {
		case ok && pod.UID == "" && uids[name(pod)] != "":
			pod.UID = uids[name(pod)]
		case ok && pod.UID == "":
			pod.UID = types.UID(name(pod))
		case !oracle.Knows(obj):
			continue
		}
		if err := r.apply(r.api.put(obj)); err != nil {
			return fmt.Errorf("%T %s/%s: %w", obj, obj.GetNamespace(), obj.GetName(), err)
		}
	}
	return nil
}
