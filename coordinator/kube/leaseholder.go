package kube

import (
	"encoding/json"
	"fmt"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// HolderAnnotation of a Lease tells clients how to reach the coordinator that holds it. A kube-scheduler that takes the Lease leaves it
// there, so it counts only where its identity is the holder's.
const HolderAnnotation = "shardsched.io/holder"

// ClientAccess is how clients reach a coordinator.
type ClientAccess struct {
	// Address is host:port of the client API; empty: it is a socket, which only its own machine reaches.
	Address string `json:"address,omitempty"`
	// Pod is namespace/name of the pod that it runs in; empty: none, as far as it knows.
	Pod string `json:"pod,omitempty"`
}

type holderNote struct {
	Identity string `json:"identity"`
	ClientAccess
}

// annotate writes who holds the Lease and how clients reach it; a Lease without a holder says nothing.
func (k *leaseLock) annotate(lease *coordinationv1.Lease) {
	if holderOf(lease) == "" {
		delete(lease.Annotations, HolderAnnotation)
		return
	}
	raw, err := json.Marshal(holderNote{k.l.cfg.Identity, k.l.cfg.Clients})
	if err != nil {
		panic(err) // three strings can be encoded
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[HolderAnnotation] = string(raw)
}

// Holder is who holds a Lease, empty: nobody does, and how clients reach it. It is an error where the holder is no coordinator, or has not
// said how.
func Holder(lease *coordinationv1.Lease) (holder string, access ClientAccess, err error) {
	holder = holderOf(lease)
	if holder == "" {
		return "", ClientAccess{}, nil
	}
	holds := fmt.Sprintf("%s holds %s/%s", DescribeHolder(holder), lease.Namespace, lease.Name)
	if !strings.Contains(holder, holderMark) {
		return holder, ClientAccess{}, fmt.Errorf("%s: no coordinator leads", holds)
	}
	var note holderNote
	if err := json.Unmarshal([]byte(lease.Annotations[HolderAnnotation]), &note); err != nil || note.Identity != holder {
		return holder, ClientAccess{}, fmt.Errorf("%s, and does not say there how clients reach it: ask by its address", holds)
	}
	return holder, note.ClientAccess, nil
}
