// Command kubectl does what docs/plugins.md asks of kubectl, and nothing else, for machines without it:
//
//	kubectl annotate node NAME KEY=VALUE
//	kubectl apply -f FILE                                  pods that are new
//	kubectl wait --for=condition=TYPE --timeout=DURATION pod/NAME …
//	kubectl get pods -o custom-columns=…                   names and nodes
package main
