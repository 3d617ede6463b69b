// Package flight holds every decision of a coordinator in kube-scheduler's place against
// kube-scheduler's own plugins: on a real API server pods of many kinds come and go while nodes
// and their devices come, change and go and a worker is killed, and what the flight recorder wrote of it is
// replayed, each decision on the state that it was made on. Claims of devices are made and freed by Kubernetes' own controllers.
package flight
