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
// # Words
//
//   - An answer ([Answer]) is what the workers have said of a class at one moment, repaired. It is held over batches, as long
//     as it can be repaired and that costs less than to ask again.
//
//   - The change log ([ChangeLog]) has each change of what a row's pods add up to, with what that was before.
//
//   - A row is repaired: judged as it was when the workers answered, to take it out of the counts, and as it is now, to put it
//     back in, by the code that the workers run. So pod n+1 sees pod n, and a batch decides as its pods would one by one:
//
//     answer:  group key -> rows, best candidates      repaired rows: verdicts of now
//     .        └── heads that are not repaired ─┬── heads by score ──┘
//     .                              best of G(key) + L(row), tie rule
//
//   - A group names only its best candidates. Once they are used, rows that were not named may be better: another answer is
//     needed. So it is where no row is left and the reasons are wanted.
//
//   - A base class is what classes have in common that differ in selectors alone, as those of Deployments that spread by
//     default. They have one shared answer, that about the base, which counts nothing. Each class has a [View] of it: a row
//     of which the class counts something is the view's own, judged and ranked by itself; every other row is to the class
//     what it is to the base. A class leaves its shared answer where its own rows cost more than an answer.
//
//   - A row is vetoed for a pod where nominees ([Nominee]), pods that come before it and are promised the row's node, keep it
//     from the pod.
//
//   - A reviewer is whoever else looks at feasible rows: plugins that are compiled in, extenders.
//
//   - A choice is vouched for where the own tables say the same of its row as the worker that has named it.
//
// # When an answer is given up
//
// Where a node itself changes, or a counter that the class reads is set anew; where so much has changed since the class's last
// pod that a pass over all rows on the workers costs less than the repair; where so many rows were repaired, or candidates
// used, that they take too much memory or are about to run out; where no pod has used it for a minute; and where more than a
// thousand are held. The next answer names as many candidates as the last one was of use for.
//
// Where terms of other pods name many labels, their sums are pinned: they go out with the question, and an answer is given up
// where a pod is placed, or leaves, that carries one of the terms.
package answers
