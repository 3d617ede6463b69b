// Package expression is the language of CELFilter and CELScore: the Common Expression
// Language over two variables, a pod and a node.
//
// The pod is the same for every node. So an expression is taken apart: what looks at the pod
// alone (or at nothing) is a *part*, numbered from the left, and is answered once; the answer
// is its *argument*. What is left, over the node and the arguments, is the *residual*:
//
//	node.labels['zone'] in pod.annotations['zones'].split(',')
//	                       └──────────── part 0 ────────────┘
//	node.labels['zone'] in @p0                  @p0 = ['a', 'b']
//
// Where an argument is a bool, the residual is made smaller: of `a && b`, `a || b` and
// `a ? b : c` goes what can not matter any more, and with it the parts in there. A residual may
// be nothing but a constant: then no node is looked at.
//
//	text ──Compile──> Template ──Ask(pod)──> arguments ──Residual──> Residual ──Eval(node)──> Outcome
//	                    │                        │ on the wire
//	                    └── what it reads of pods and nodes
//
// A part that fails has its failure as the argument, and fails where it is used: a residual
// comes to what the whole expression comes to, for every pod and node.
//
// Coordinator and worker take the same text apart in the same way. Fingerprint tells whether
// their languages are the same.
//
// Everything is bounded: the length of a text, the depth of what it nests, the cost of an
// evaluation in the units of Kubernetes' own CEL, and the size of an argument. Maps are walked
// in the order of their keys, so that nothing depends on chance.
//
// The package is pure: no clock, no goroutine, no I/O. Templates and residuals are immutable
// and may be shared by goroutines.
package expression
