package coordinator

// batchSize says how many pods the next batch has at the most, and whether the running batch goes on. No decision depends
// on where batches end. The smaller of two bounds counts:
//
//	steady      the tables have changed under a batch: its answers are void, and it ends after the pod at hand
//
//	                     running ────── invalidate ──────> invalid
//	                        │ end                             │ end
//	                        v                                 v
//	                steady = 2 steady                     steady = 1
//
//	affordable  a batch was costly: it had many classes without an answer, or has taken a turn's time
//
//	   asked, few classes:  affordable = 2 affordable,     asked, many:  as many pods as have few
//	                        if so many still have few      cut:          as many pods as there was time for
//
// Both grow to the configured size; steady begins with it, and affordable with a batch that costs little whatever its pods are.
type batchSize struct {
	most int
	// steady is short at first after a batch that was invalid, so that a row of preemptors does not give back all the other
	// pods again and again.
	steady int
	// affordable is short where nearly every pod has a class of its own: a class without an answer names as many candidates as pods
	// come before its own, and looks again at as many rows.
	affordable int
	// classes is how many classes without an answer a batch is to have (package tune).
	classes int
	// invalid says that the tables have changed in the middle of the batch, in a way that its answers do not know of: by a
	// preemption, or a row made anew.
	invalid bool
}

func newBatchSize(most int) batchSize {
	classes := firstWay().Classes
	return batchSize{most: most, steady: most, affordable: min(classes, most), classes: classes}
}

// next is how many pods the next batch has at the most.
func (b *batchSize) next() int { return min(b.steady, b.affordable) }

// asked takes in a batch of so many pods, with so many classes that had no answer.
func (b *batchSize) asked(pods, classes int) {
	fit := max(pods*b.classes/max(classes, 1), 1) // so many pods have as many classes as a batch is to have
	if classes <= b.classes {
		fit = min(2*b.affordable, max(fit, b.affordable))
	}
	b.affordable = min(fit, b.most)
}

// cut has the next batch be as short as there was time for in this one.
func (b *batchSize) cut(pods int) { b.affordable = pods }

// invalidate ends the batch after the pod at hand.
func (b *batchSize) invalidate() { b.invalid = true }

// end ends the batch.
func (b *batchSize) end() {
	if b.invalid {
		b.invalid, b.steady = false, 1
		return
	}
	b.steady = min(2*b.steady, b.most)
}
