// Package answers is the decision engine: it holds what the workers have answered, repairs it by the change log
// since, and chooses a row for one pod after the other. It is pure: it has no clock, asks nobody, and knows nothing of
// networks, metrics or Kubernetes' API. What it lacks it returns as a [Need]; the loop gets the answer and hands it over:
//
//	batch := engine.Begin(pods)
//	batch.Join(class) …                      for each pod: which classes share an answer
//	batch.Want(question) …                   for each pod: is there an answer?
//	for each need of batch.Needs(): engine.Take(need, the workers' result)
//
//	for each pod, in the queue's order:
//	        ┌──────────────── engine.Take(need, result) <───────────────┐
//	        v                                                           │
//	choice, found, need := engine.Best(question) ── need ──> workers, or own tables
//	        ├─ found: assume the pod on choice.Row: the log notes it
//	        └─ none:  engine.Own(question) has the reasons
//
// testdata has scripts that show it at work.
//
// A later batch may be asked about ahead, while the pods before it are decided (ahead.go): then the answer is repaired by what these
// have changed since the question.
//
// # Words
//
//   - An answer ([Answer]) is what the workers have said of a class at one moment, repaired. It is held over batches, as long
//     as it can be repaired and that costs less than to ask again.
//
//   - The totals of a row are the sums over its pods. The change log ([ChangeLog]) has each change of a row's totals, with
//     the totals before.
//
//   - A row is repaired in two steps, by the code that the workers run: it is judged as it was when the workers answered, and
//     taken out of the counts; then it is judged as it is now, and counted again. So pod n+1 sees pod n, and a batch decides
//     the same as its pods would one by one:
//
//     answer:  group key -> rows, best candidates      repaired rows: verdicts of now
//     .        └── heads that are not repaired ─┬── heads by score ──┘
//     .                              best of G(key) + L(row), tie rule
//
//   - A group names only its best candidates. Once they are used up, unnamed rows may be better: then another answer is
//     needed. Another answer is also needed where no row is feasible and the held answer has no reasons.
//
//   - Some classes differ only in selectors, as those of Deployments that spread by default. Their base class is the part that
//     they have in common; it counts no pods. They have one shared answer, which is about the base class. Each class has a
//     [View] of it: a row with pods that the class counts is the view's own row, and is judged and ranked by itself; every
//     other row has the same verdict for the class as for the base. A class leaves its shared answer where its own rows cost
//     more than an answer.
//
//   - Copies ([Copies]) are how many more pods of a class nodes take, in all and by domain. They are kept with the answer, and repaired
//     by the change log: of each row that has changed by what it took before, and takes now.
//
//   - A question within a domain ([Domain]) is about another class: that of pods that may get the domain's nodes only.
//
//   - A nominee ([Nominee]) is the pods that are nominated to a row and come before the pod that is being decided. A row
//     is vetoed for a pod if it refuses the pod together with its nominee.
//
//   - A reviewer is an out-of-tree plugin or an extender that looks at feasible rows. Its [Refusals] are the nodes that it has
//     refused, counted by reason, to be told to people.
//
//   - A choice is vouched for if the own tables agree with the worker that has named its row.
//
// # When an answer is given up
//
// An answer is given up if
//
//   - a node itself changes, or a counter that the class reads is set anew
//   - so many rows have changed since the class's last pod that the workers' pass over all rows costs less than the repair
//   - its repaired rows take too much memory, or its candidates are about to be used up
//   - a shared device changes, or what is in use of one, and the class has claims
//   - no pod has used it for a minute
//   - it is of a class that has come for the first time, or not for long, and so many rows have changed as it names: it names those
//     that the pods before its own may take, and a few more
//   - more than a thousand answers are held.
//
// The next answer of the class names candidates for four times as many changes as the last answer had repaired, within bounds that
// go by the pods of its batch and by how many answers are held (heldFor).
//
// Where terms of other pods name many labels, their sums are pinned: they are computed here and sent with the question. Such an
// answer is also given up when a pod that carries one of the terms is placed or leaves.
package answers
