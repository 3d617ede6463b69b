package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// attack is what somebody makes in a namespace.
type attack struct {
	name, about string
	// labelled wants nodes with many labels.
	labelled bool
	// pods is how many are made at the most, of which pod makes each.
	pods int
	pod  func(i int, r *rand.Rand) *v1.Pod
	life life
	// before makes what the pods need, before the scheduler is started.
	before func(context.Context, *attackCluster) error
	// besides is done while the pods are made, until the context ends.
	besides func(context.Context, *attackCluster) error
}

// life is how long the pods of an attack stay.
type life int

const (
	stays   life = iota
	halfway      // until the attack is half over
	churned      // until the scheduler has tried the pod
)

const (
	// attackers is how many requests of the attacker are under way at once.
	attackers = 8
	// triedWithin is how long the attacker waits for the scheduler to try a pod that is churned.
	triedWithin = 2 * time.Second
)

// run attacks until the context ends, which is d later.
func (a *attack) run(ctx context.Context, s *attackCluster, d time.Duration) error {
	g, in := errgroup.WithContext(ctx)
	if a.besides != nil {
		g.Go(func() error { return a.besides(in, s) })
	}
	g.Go(func() error { return a.makePods(in, s, d) })
	if a.life == halfway {
		g.Go(func() error {
			if !sleep(in, d/2) {
				return nil
			}
			return s.deleteAll(in)
		})
	}
	err := g.Wait()
	if ctx.Err() != nil {
		return nil // what was under way was cut off
	}
	<-ctx.Done()
	return err
}

// makePods makes them at an even rate.
func (a *attack) makePods(ctx context.Context, s *attackCluster, d time.Duration) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(attackers)
	begin, n := time.Now(), s.scaled(a.pods)
	for i := range n {
		if !sleep(ctx, time.Until(begin.Add(time.Duration(i)*d/time.Duration(n)))) {
			break
		}
		g.Go(func() error { return a.makePod(ctx, s, i) })
	}
	return g.Wait()
}

func (a *attack) makePod(ctx context.Context, s *attackCluster, i int) error {
	p := a.pod(i, s.random(i))
	if err := s.create(ctx, p); err != nil || a.life != churned {
		return err
	}
	if s.schedulerName != "" {
		return s.delete(ctx, p.Name) // nobody tries it
	}
	in, cancel := context.WithTimeout(ctx, triedWithin)
	defer cancel()
	// A pod that is not tried in time is deleted all the same.
	_, _ = s.bed.Pods.Until(in, "are tried", isTried, p.Namespace+"/"+p.Name)
	return s.delete(ctx, p.Name)
}

// isTried tells whether the scheduler has decided about the pod.
func isTried(p *v1.Pod) bool {
	return p != nil && (p.Spec.NodeName != "" || len(p.Status.Conditions) > 0)
}

// scaled is how many of n objects are made.
func (s size) scaled(n int) int { return max(1, int(float64(n)*s.scale)) }

// random is the source of what is random in the i-th object of an attack.
func (s size) random(i int) *rand.Rand { return rand.New(rand.NewPCG(s.seed, uint64(i))) }

// create makes a pod as the attacker.
func (s *attackCluster) create(ctx context.Context, p *v1.Pod) error {
	p.Namespace, p.UID, p.Spec.SchedulerName = s.hostile, "", s.schedulerName
	for _, containers := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			if containers[i].Image == "" {
				containers[i].Image = "pause"
			}
		}
	}
	_, err := s.tenant.CoreV1().Pods(s.hostile).Create(ctx, p, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("attacker's pod %s: %w", p.Name, err)
	}
	s.made.Add(1)
	return nil
}

// atOnce deletes without waiting for a kubelet.
func atOnce() metav1.DeleteOptions {
	var zero int64
	return metav1.DeleteOptions{GracePeriodSeconds: &zero}
}

func (s *attackCluster) delete(ctx context.Context, name string) error {
	err := s.tenant.CoreV1().Pods(s.hostile).Delete(ctx, name, atOnce())
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (s *attackCluster) deleteAll(ctx context.Context) error {
	return s.tenant.CoreV1().Pods(s.hostile).DeleteCollection(ctx, atOnce(), metav1.ListOptions{})
}

// clear deletes what an attack has made, and its victims.
func (s *attackCluster) clear(ctx context.Context) error {
	var keys []string
	for _, p := range s.bed.Pods.All() {
		if p.Namespace == s.hostile || p.Namespace == s.bystanders {
			keys = append(keys, p.Namespace+"/"+p.Name)
		}
	}
	return s.bed.DeletePods(ctx, keys...)
}

// sleep waits, and tells whether the context goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
