package audit

import (
	"fmt"
	"slices"
	"strings"
)

// Reign is the time of one leader: from the revision at which its key was the oldest
// until that key was gone.
type Reign struct {
	// Key is the leader's key below the cluster's prefix, Term its create revision.
	Key  string
	Term int64
	// Value is what the key held: a LeaderRecord.
	Value []byte
	// Began is the revision from which on it led, Ended that of its key's end; 0: it has
	// not ended.
	Began, Ended int64
	// Writes is how many of its transactions etcd committed, Refused how many not.
	Writes, Refused int
}

// Reigns reads who led, and when, from a history. A contender that never led has none.
func Reigns(h *History) []*Reign {
	var reigns, alive []*Reign
	for _, c := range h.Changes {
		if !strings.HasPrefix(c.Key, leadersAt) {
			continue
		}
		i := slices.IndexFunc(alive, func(r *Reign) bool { return r.Key == c.Key })
		switch {
		case c.Value == nil && i >= 0:
			alive[i].Ended = c.Revision
			alive = slices.Delete(alive, i, i+1)
		case c.Value != nil && i < 0:
			alive = append(alive, &Reign{Key: c.Key, Term: c.Revision, Value: c.Value})
		}
		if len(alive) > 0 && alive[0].Began == 0 {
			alive[0].Began = c.Revision
			reigns = append(reigns, alive[0])
		}
	}
	return reigns
}

// writers holds transactions against reigns.
type writers struct {
	prefix  string
	history *History
	reigns  []*Reign
	faults  []Fault
}

// JudgeWriters demands that every write of an object or of the queue journal was made
// by a transaction that compares a leader's key, while that leader led, and that etcd
// holds no such write that nobody asked for. The reigns come back with their numbers
// of writes.
func JudgeWriters(h *History, cluster string, txns []Txn) ([]Fault, []*Reign) {
	w := &writers{prefix: Prefix(cluster), history: h, reigns: Reigns(h)}
	for i := range txns {
		w.judge(&txns[i])
	}
	w.asked(txns)
	return w.faults, w.reigns
}

func (w *writers) fault(t *Txn, format string, a ...any) {
	subject := fmt.Sprintf("transaction %d (%d writes, the first: %s)", t.ID, len(t.Writes), t.Writes[0])
	w.faults = append(w.faults, Fault{Revision: t.Revision, Subject: subject, Problem: fmt.Sprintf(format, a...)})
}

// guarded tells whether a transaction writes what only a leader may.
func (w *writers) guarded(t *Txn) bool {
	return slices.ContainsFunc(t.Writes, func(key string) bool {
		key, ours := strings.CutPrefix(key, w.prefix)
		return ours && ofLeaders(key)
	})
}

func (w *writers) judge(t *Txn) {
	if !w.guarded(t) {
		return
	}
	reign := w.reignOf(t)
	switch {
	case reign == nil && len(t.Fences) == 0:
		w.fault(t, "names no term")
	case reign == nil && t.Succeeded:
		w.fault(t, "its term %v is none of a leader", t.Fences)
	case reign == nil || !t.Answered:
	case !t.Succeeded:
		reign.Refused++
	case !reign.led(t.Revision):
		w.fault(t, "term %d wrote it, which led from revision %d to %d", reign.Term, reign.Began, reign.Ended)
	default:
		reign.Writes++
	}
}

// reignOf finds the reign whose key and term a transaction compares.
func (w *writers) reignOf(t *Txn) *Reign {
	for key, term := range t.Fences {
		for _, r := range w.reigns {
			if w.prefix+r.Key == key && r.Term == term {
				return r
			}
		}
	}
	return nil
}

// led tells whether the leader led at a revision. That of its beginning is another's, but
// also what a transaction is told that changes nothing, such as to delete what is not there.
func (r *Reign) led(revision int64) bool {
	return revision >= r.Began && (r.Ended == 0 || revision < r.Ended)
}

// asked demands a transaction for each guarded change in the history: one that
// succeeded at its revision, or one of the leader of that time that etcd had no time to
// answer.
func (w *writers) asked(txns []Txn) {
	type write struct {
		key      string
		revision int64
	}
	answered, open := map[write]bool{}, map[string][]*Reign{}
	for i := range txns {
		t := &txns[i]
		for _, key := range t.Writes {
			if t.Succeeded {
				answered[write{key, t.Revision}] = true
			} else if r := w.reignOf(t); r != nil && !t.Answered {
				open[key] = append(open[key], r)
			}
		}
	}
	for _, c := range w.history.Changes {
		if !ofLeaders(c.Key) {
			continue
		}
		key := w.prefix + c.Key
		led := func(r *Reign) bool { return r.led(c.Revision) }
		if !answered[write{key, c.Revision}] && !slices.ContainsFunc(open[key], led) {
			w.faults = append(w.faults, Fault{Revision: c.Revision, Subject: c.Key,
				Problem: "no recorded transaction of the leader of that time wrote it"})
		}
	}
}

// ofLeaders tells of keys that leaders alone write.
func ofLeaders(key string) bool {
	return strings.HasPrefix(key, objectsAt) || strings.HasPrefix(key, queueAt) || strings.HasPrefix(key, historyAt)
}
