package main

// catalogue is all attacks. Each is as large as one namespace without quota, and the API server, allow.
func catalogue() []*attack {
	return []*attack{
		{
			name: "absent-keys", about: "one pod that fits nowhere prefers pods of all namespaces by 1,500 keys that no node has",
			pods: 1, pod: absentKeys,
		},
		{
			name: "own-terms", about: "20 pods prefer pods of their own namespace by 1,500 keys that no node has",
			pods: 20, pod: ownTerms,
		},
		{
			name: "soft-constraints", about: "20 pods have 1,500 soft spread constraints of such keys",
			pods: 20, pod: softConstraints,
		},
		{
			name: "many-keys", about: "one pod that fits nowhere prefers pods of all namespaces by 260 keys that all nodes have",
			labelled: true, pods: 1, pod: manyKeys,
		},
		{
			name: "random-values", about: "one pod that fits nowhere prefers pods of all namespaces by 40 keys whose values cut nodes " +
				"into groups of one",
			labelled: true, pods: 1, pod: randomValues,
		},
		{
			name: "random-values-placed", about: "the same, of a pod that is placed",
			labelled: true, pods: 1, pod: placed(randomValues),
		},
		{
			name: "deleted-terms", about: "one pod with 10,000 terms of different selectors over all namespaces, deleted halfway",
			pods: 1, pod: deletedTerms, life: halfway,
		},
		{
			name: "large-pods", about: "120 pods of almost 1 MB, of 12,000 random values each, deleted when they are tried",
			pods: 120, pod: largePod, life: churned,
		},
		{
			name: "unanchored", about: "5,000 pods that require pods which lack a label, each another one, in all namespaces",
			pods: 5000, pod: unanchored,
		},
		{
			name: "long-lists", about: "300 pods that prefer pods of all namespaces by NotIn of 5,000 values",
			pods: 300, pod: longList,
		},
		{
			name: "pending-flood", about: "5,000 pods that fit nowhere, a class each, and labels that change and pods that end",
			pods: 5000, pod: pendingFlood, before: ownPods, besides: changes,
		},
		{
			name: "failing", about: "1,000 pods that fit nowhere, tried again and again, for pods that end",
			pods: 1000, pod: failing, before: ownPods, besides: changes,
		},
		{
			name: "within-bounds", about: "100 pods that fit, of 32 terms of different selectors over all namespaces, by keys that cut " +
				"nodes into groups of one",
			labelled: true, pods: 100, pod: withinBounds,
		},
		{
			name: "other-hosts", about: "500 pods that fit, and rather not on the hosts of pods that lack a label, each another one, in " +
				"all namespaces",
			pods: 500, pod: otherHosts,
		},
		{
			name: "claims", about: "20 pods of the same 500 claims, which wait for a first consumer and for a driver that is not there",
			pods: 20, pod: manyClaims, before: claims,
		},
		{
			name: "preempting", about: "200 pods that fit nowhere, also in place of 500 of lower priority that 2,000 budgets match each",
			pods: 200, pod: preempting, before: budgets,
		},
		{
			name: "devices", about: "200 pods with claims, each other ones, that try most combinations of devices on each node, where " +
				"the devices of all nodes differ",
			pods: 200, pod: hardClaims, before: differingDevices,
		},
	}
}
