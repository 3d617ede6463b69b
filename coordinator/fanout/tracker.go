package fanout

// standing is how far an attempt is.
type standing int

const (
	running standing = iota
	answered
	failed
)

// step is what a part needs next.
type step int

const (
	wait step = iota
	startBackups
	usePrimary
	useBackups
	compare
	useOwn
)

// tracker decides when a part has its answer and what to start until then. It is
// pure: what happens is passed in, what to do comes out.
type tracker struct {
	primary standing
	// backups share the part's shards out among them; none before they started.
	backups []standing
	settled bool
	// compared tells that an answer counts only if primary and backups agree. doubted tells that they disagree, or that one
	// has failed: then the own tables are the backup.
	compared, doubted bool
}

// next is called after every change. usePrimary and useBackups come once, compare until it is settled or
// doubted.
func (t *tracker) next() step {
	switch {
	case t.settled:
		return wait
	case t.compared && !t.doubted:
		return t.nextCompared()
	case t.primary == answered:
		t.settled = true
		return usePrimary
	case len(t.backups) > 0 && t.allBackupsAnswered():
		t.settled = true
		return useBackups
	case t.primary == failed && len(t.backups) == 0:
		return startBackups
	}
	return wait
}

// nextCompared is next until doubted is set.
func (t *tracker) nextCompared() step {
	switch {
	case t.primary == failed:
		t.doubted = true
		return useOwn
	case t.primary == answered && t.allBackupsAnswered():
		return compare
	}
	return wait
}

// hedge tells whether backups should start although the attempts under way may still answer.
func (t *tracker) hedge() bool {
	return !t.settled && (len(t.backups) == 0 || t.compared && !t.doubted)
}

func (t *tracker) allBackupsAnswered() bool {
	for _, b := range t.backups {
		if b != answered {
			return false
		}
	}
	return true
}
