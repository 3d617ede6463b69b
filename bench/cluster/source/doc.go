// Package source holds the reading half of coordinator/kube against a real API server, under
// the roles that schedulers have: that a consistent read shows what others wrote just before,
// and that the mirror is whole again after the API server or etcd was killed. What a real one
// can't be made to do, such as to lag, is tested beside the code.
package source
