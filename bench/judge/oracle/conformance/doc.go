// Package conformance holds our decisions against upstream's plugins, decision by
// decision.
//
//	Scenario --> apiServer --+--> ours: the scheduler itself, in memory --> decision log
//	                ^        |                                                    |
//	                |        +--> replay: package oracle, and our scorer  <-------+
//	                +-- volumes and claims ---+      on every node --> differences
//
// A Scenario is rounds of events: objects set and removed. After each round our scheduler
// decides until it comes to rest, and the replay follows. What happens in the API server
// meanwhile, such as the binding of claims, is done by an apiServer in between.
//
// For a decision that chose a node: upstream finds the node feasible, gives it the score
// that we give it, no node a higher one, and finds as many nodes feasible. For one that
// chose none: upstream finds none either, and says so with the same words. Pods that come
// are tried in the order of upstream's queue sort, and none that a gate holds back.
//
// Beyond what a decision shows, every node is compared: feasible or not, the
// reasons, and each plugin's score, raw and weighted.
//
// Beside the random ones there are scenarios of kube-scheduler's own benchmark (Shapes), and
// decision logs that the product writes for real clusters (Log): tests take them from
// $SHARDSCHED_DATA, or ../shared/data beside the repository.
//
// Scenarios are made at random, by family of rules, so that rules can be learned one after
// the other; Reach tells what upstream finds in them. One that shows a difference is made
// smaller with Shrink, and written down as YAML.
package conformance
