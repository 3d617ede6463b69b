// Package scripted is a plugin for every extension point that does what a pod's annotations say,
// and prints each call.
//
// It is written against k8s.io/kube-scheduler/framework alone: the same code is compiled into
// kube-scheduler and into shardsched, so that what the two do to it can be compared.
//
//	annotation                          what it says
//	script/A.Filter: "Error no luck"    what plugin A answers at Filter: a code, and the text of it
//	script/A.Filter.n1: "…"             the same for node n1
//	script/A.Filter: "once Error …"     only in the first call for the pod (and node)
//	script/A.Permit: "Wait 30s"         Permit has the pod wait so long
//	script/A.PreBind: "Hold"            stays in the call until script/go names the point, or the pod goes
//	script/A.PreFilterResult: "n1 n2"   the nodes that PreFilter leaves
//	script/A.Score.n1: "70"             a score
//	script/A.NormalizeScore: "…"        as any other
//	script/A.PostFilter: "Nominate n1"  succeeds with a nomination
//	script/A.PreBind: "Parallel"        its preflight allows others beside it
//	script/A.Bind: "Bind"               binds the pod itself
//	script/A.Hint: "QueueSkip"          what its queueing hints answer; none: Queue
//	script/permit: "A allow"            lets a waiting pod go on, "A reject text" does not
//	script/order: "3"                   where the pod stands in the queue, among its equals in priority
//	script/widget: "w"                  the Widget whose coming or change is worth another try
//
// Where nothing is said: Success, 100 for node n1 and 0 for the others, Skip at Bind.
//
// A call is a line of standard output, printed when it begins:
//
//	script NAMESPACE/POD POINT PLUGIN NODE-OR-DASH [DETAIL]: ANSWER
package scripted
