package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// silent is the annotation of a node whose kubelet says nothing.
	silent = "hollow.shardsched.io/silent"
	// beatsPerGrace is how often the kubelet of a node renews its Lease before the node would count as silent: at the default
	// grace it does so every 10 s, as a real one does.
	beatsPerGrace = 4
	// beats is how many are written at once.
	beats = 16
)

// heartbeats stands for the kubelets of all nodes in saying that they are alive: it renews their Leases, and makes ready what the node
// lifecycle controller took for dead.
func heartbeats(_ context.Context, c cluster) (func(context.Context), error) {
	nodes := c.objects.Core().V1().Nodes()
	nodes.Informer() // before the informers start
	return func(ctx context.Context) {
		tick := time.NewTicker(c.nodeGrace / beatsPerGrace)
		defer tick.Stop()
		for {
			all, err := nodes.Lister().List(labels.Everything())
			if err == nil {
				c.beat(ctx, all)
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}, nil
}

func (c cluster) beat(ctx context.Context, nodes []*v1.Node) {
	var all sync.WaitGroup
	room := make(chan struct{}, beats)
	for _, n := range nodes {
		if _, is := n.Annotations[silent]; is {
			continue
		}
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			if err := c.beatOf(ctx, n); err != nil && ctx.Err() == nil {
				fmt.Fprintf(os.Stderr, "heartbeat: %s: %v\n", n.Name, err)
			}
		})
	}
	all.Wait()
}

func (c cluster) beatOf(ctx context.Context, n *v1.Node) error {
	now := metav1.NowMicro()
	leases := c.client.CoordinationV1().Leases(v1.NamespaceNodeLease)
	renewal := fmt.Sprintf(`{"spec":{"renewTime":%q}}`, now.UTC().Format(metav1.RFC3339Micro))
	_, err := leases.Patch(ctx, n.Name, types.MergePatchType, []byte(renewal), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		seconds := int32(c.nodeGrace / time.Second)
		_, err = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: n.Name},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &n.Name, LeaseDurationSeconds: &seconds, RenewTime: &now},
		}, metav1.CreateOptions{})
	}
	if err != nil || isReady(n) {
		return err
	}
	n = n.DeepCopy()
	ready := v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "Hollow", LastHeartbeatTime: metav1.Time{Time: now.Time},
		LastTransitionTime: metav1.Time{Time: now.Time}}
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == v1.NodeReady {
			n.Status.Conditions[i] = ready
			_, err = c.client.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{})
			return unlessConflict(err)
		}
	}
	n.Status.Conditions = append(n.Status.Conditions, ready)
	_, err = c.client.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{})
	return unlessConflict(err)
}

func isReady(n *v1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

// unlessConflict is an error of a write, but for one that another write came before: the next beat is soon.
func unlessConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}
