package observe

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/scorer/scan"
)

// Where a bug was met that Bugs knows by itself, for the metric.
const (
	inHint   = "hint"
	inPlugin = "plugin"
)

// Bugs tells of panics that were recovered: the metric of each, the log of some.
type Bugs struct {
	meters *Meters
	told   sync.Map // of hints by plugin, of plugins by plugin and point: the log tells once of each
}

// NewBugs makes one that counts with the meters.
func NewBugs(m *Meters) *Bugs { return &Bugs{meters: m} }

// Met tells of a bug that the loop met with a pod or a class, or a read that is about none, and gives the error for whoever asked.
func (b *Bugs) Met(where string, class uint64, pod types.UID, panicked any) error {
	p := scan.Recovered(panicked)
	b.meters.Panicked(where)
	klog.Background().Error(p, "The scheduler met a bug of its own", "where", where, "class", class, "podUID", pod, "stack",
		string(p.Stack))
	return fmt.Errorf("the scheduler met a bug of its own (%s): %w", where, p)
}

// Hint tells of a bug that a plugin's hint met, the log once a plugin: the hint is asked again with every event.
func (b *Bugs) Hint(plugin string, p *queue.Pod, panicked any) {
	b.meters.Panicked(inHint)
	if _, told := b.told.LoadOrStore(plugin, nil); told {
		return
	}
	why, about := scan.Recovered(panicked), klog.ObjectRef{}
	if p != nil {
		about = klog.KObj(p.Obj)
	}
	klog.Background().Error(why, "A queueing hint met a bug: from now on that counts as if an event helps",
		"plugin", plugin, "pod", about, "stack", string(why.Stack))
}

// Plugin tells of an out-of-tree plugin that has panicked. The log tells it once for each plugin and point,
// because the error of each attempt tells it, too. Any goroutine may call it.
func (b *Bugs) Plugin(plugin, point string, why *scan.Panic) {
	b.meters.Panicked(inPlugin)
	if _, told := b.told.LoadOrStore([2]string{plugin, point}, nil); !told {
		klog.Background().Error(why, "A plugin met a bug", "plugin", plugin, "point", point, "stack", string(why.Stack))
	}
}
