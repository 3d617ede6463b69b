// Package surfaces holds what people and programs see of a coordinator in kube-scheduler's place
// to what they see of kube-scheduler, beside each other on one API server: endpoints and who may
// ask for them, metrics by name, kind and labels, exit codes, the dump of caches, and that nothing
// is asked for that the role system:kube-scheduler does not allow. What kube-scheduler has not got
// is tried there too: traces and explanations.
package surfaces
