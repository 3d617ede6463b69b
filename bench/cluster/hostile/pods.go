package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// absent is a topology key that no node has.
func absent(i int) string { return fmt.Sprintf("absent.example.com/k-%05d", i) }

// vast starts a pod that fits nowhere.
func vast(kind string, i int) *build.PodBuilder {
	return build.Pod(fmt.Sprintf("%s-%d", kind, i)).Label("app", kind).CPU("1000")
}

// everywhere is a term over all pods of all namespaces.
func everywhere(key string) build.PodTerm {
	return build.PodTerm{TopologyKey: key, LabelSelector: &metav1.LabelSelector{}, NamespaceSelector: &metav1.LabelSelector{}}
}

// expression is a selector of one requirement.
func expression(key string, operator metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
}

// words are random ones of so many hexadecimal digits.
func words(r *rand.Rand, n, digits int) []string {
	all := make([]string, n)
	raw := make([]byte, (digits+1)/2)
	for i := range all {
		for k := range raw {
			raw[k] = byte(r.Uint32())
		}
		all[i] = "v" + hex.EncodeToString(raw)[:digits-1]
	}
	return all
}

func absentKeys(i int, _ *rand.Rand) *v1.Pod {
	p := vast("absent-keys", i)
	for k := range 1500 {
		p.PreferNear(1, everywhere(absent(k)))
	}
	return p.Obj()
}

func ownTerms(i int, _ *rand.Rand) *v1.Pod {
	p := vast("own-terms", i)
	for k := range 1500 {
		p.PreferNear(1, build.PodTerm{TopologyKey: absent(k), LabelSelector: &metav1.LabelSelector{}})
	}
	return p.Obj()
}

func softConstraints(i int, _ *rand.Rand) *v1.Pod {
	p := vast("soft-constraints", i)
	for k := range 1500 {
		p.Spread(v1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: absent(k), WhenUnsatisfiable: v1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{},
		})
	}
	return p.Obj()
}

func manyKeys(i int, _ *rand.Rand) *v1.Pod {
	p := vast("many-keys", i)
	for k := range features - varied {
		p.PreferNear(1, everywhere(feature(varied+k)))
	}
	return p.Obj()
}

func randomValues(i int, _ *rand.Rand) *v1.Pod {
	p := vast("random-values", i)
	for k := range varied {
		p.PreferNear(1, everywhere(feature(k)))
	}
	return p.Obj()
}

// placed makes a pod of an attack small, so that it fits.
func placed(pod func(int, *rand.Rand) *v1.Pod) func(int, *rand.Rand) *v1.Pod {
	return func(i int, r *rand.Rand) *v1.Pod {
		p := pod(i, r)
		p.Spec.Containers[0].Resources = v1.ResourceRequirements{}
		return p
	}
}

func deletedTerms(i int, _ *rand.Rand) *v1.Pod {
	p := vast("deleted-terms", i)
	for k := range 10000 {
		t := everywhere(absent(0))
		t.LabelSelector = expression(fmt.Sprintf("k-%05d", k), metav1.LabelSelectorOpDoesNotExist)
		p.PreferNear(1, t)
	}
	return p.Obj()
}

func largePod(i int, r *rand.Rand) *v1.Pod {
	return vast("large-pods", i).Required(build.Labels(build.Match("absent.example.com/k", v1.NodeSelectorOpNotIn,
		words(r, 12000, 63)...))).Obj()
}

func unanchored(i int, _ *rand.Rand) *v1.Pod {
	t := everywhere(v1.LabelTopologyZone)
	t.LabelSelector = expression(fmt.Sprintf("k-%05d", i), metav1.LabelSelectorOpDoesNotExist)
	return vast("unanchored", i).Near(t).Obj()
}

func longList(i int, r *rand.Rand) *v1.Pod {
	t := everywhere(v1.LabelTopologyZone)
	t.LabelSelector = expression("app", metav1.LabelSelectorOpNotIn, words(r, 5000, 20)...)
	return vast("long-lists", i).PreferNear(1, t).Obj()
}

func pendingFlood(i int, _ *rand.Rand) *v1.Pod {
	own := fmt.Sprintf("own-%05d", i)
	return build.Pod(fmt.Sprintf("pending-flood-%d", i)).Label("own", own).CPU(fmt.Sprintf("%d", 1000+i)).
		Apart(build.PodTerm{TopologyKey: v1.LabelHostname, LabelSelector: expression("own", metav1.LabelSelectorOpIn, own)}).Obj()
}

func failing(i int, _ *rand.Rand) *v1.Pod {
	return build.Pod(fmt.Sprintf("failing-%d", i)).CPU(fmt.Sprintf("%dm", 64001+i)).Obj()
}

func withinBounds(i int, _ *rand.Rand) *v1.Pod {
	p := build.Pod(fmt.Sprintf("within-bounds-%d", i)).CPU("1m")
	for k := range 32 {
		t := everywhere(feature((i + k) % varied))
		t.LabelSelector = expression(fmt.Sprintf("k-%d-%d", i, k), metav1.LabelSelectorOpDoesNotExist)
		p.PreferNear(1, t)
	}
	return p.Obj()
}

func otherHosts(i int, _ *rand.Rand) *v1.Pod {
	t := everywhere(v1.LabelHostname)
	t.LabelSelector = expression(fmt.Sprintf("k-%05d", i), metav1.LabelSelectorOpDoesNotExist)
	return build.Pod(fmt.Sprintf("other-hosts-%d", i)).CPU("1m").PreferApart(1, t).Obj()
}

// claimed is how many claims a pod has.
const claimed = 500

func manyClaims(i int, _ *rand.Rand) *v1.Pod {
	p := build.Pod(fmt.Sprintf("claims-%d", i)).CPU("1m")
	for k := range claimed {
		p.Claim(fmt.Sprintf("claim-%03d", k))
	}
	return p.Obj()
}

// claims are those of the pods. Nobody makes volumes for their class.
func claims(ctx context.Context, s *attackCluster) error {
	err := s.bed.Create(ctx, build.WaitingClass("waits", "nobody.example.com"))
	if err != nil && !apierrors.IsAlreadyExists(err) { // it is there from a round before
		return err
	}
	for k := range claimed {
		c := build.Claim(fmt.Sprintf("claim-%03d", k), "waits").Namespace(s.hostile).Obj()
		c.UID, c.ResourceVersion = "", ""
		if _, err := s.tenant.CoreV1().PersistentVolumeClaims(s.hostile).Create(ctx, c, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

const (
	// filling is how many pods of lower priority the attacker has, and budgeted how many budgets match each of them.
	filling, budgeted = 500, 2000
)

// preempting asks for nearly all of a node, which the pods that run there leave to nobody.
func preempting(i int, _ *rand.Rand) *v1.Pod {
	return build.Pod(fmt.Sprintf("preempting-%d", i)).CPU(fmt.Sprintf("%dm", 63850+i%150)).Obj()
}

// budgets are those of the attacker's pods of lower priority, and these pods.
func budgets(ctx context.Context, s *attackCluster) error {
	g, in := errgroup.WithContext(ctx)
	g.SetLimit(attackers)
	for i := range s.scaled(budgeted) {
		none := intstr.FromInt32(0)
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("budget-%d", i)},
			Spec: policyv1.PodDisruptionBudgetSpec{
				MaxUnavailable: &none, Selector: expression(fmt.Sprintf("k-%05d", i), metav1.LabelSelectorOpDoesNotExist),
			}}
		g.Go(func() error {
			_, err := s.tenant.PolicyV1().PodDisruptionBudgets(s.hostile).Create(in, b, metav1.CreateOptions{})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i := range s.scaled(filling) {
		p := build.Pod(fmt.Sprintf("filling-%d", i)).Namespace(s.hostile).Label("own",
			fmt.Sprintf("own-%05d", i)).Priority(-10).CPU("60").Node(fmt.Sprintf("node-%05d", i%s.nodes)).Obj()
		if err := s.bed.Create(ctx, p); err != nil { // of a class that somebody else has made
			return err
		}
	}
	return nil
}

const (
	// small is how many pods of the attacker run that change their labels or end.
	small = 500
	// changeRate is how many of them do a second.
	changeRate = 100
)

// ownPods are pods of the attacker that run.
func ownPods(ctx context.Context, s *attackCluster) error {
	for i := range s.scaled(small) {
		if err := s.create(ctx, ownPod(i, s.nodes)); err != nil {
			return err
		}
	}
	return nil
}

func ownPod(i, nodes int) *v1.Pod {
	return build.Pod(fmt.Sprintf("small-%d", i)).Label("own", "none").CPU("10m").Node(fmt.Sprintf("node-%05d", i%nodes)).Obj()
}

// changes gives the attacker's pods other labels in turn, and has every second one end and come back.
func changes(ctx context.Context, s *attackCluster) error {
	pods := s.tenant.CoreV1().Pods(s.hostile)
	for i := 0; sleep(ctx, time.Second/changeRate); i++ {
		k := i % s.scaled(small)
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"own":"own-%05d"}}}`, i%5000)
		if _, err := pods.Patch(ctx, fmt.Sprintf("small-%d", k), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
		if i%2 == 0 {
			continue
		}
		if err := s.delete(ctx, fmt.Sprintf("small-%d", k)); err != nil {
			return err
		}
		if err := s.create(ctx, ownPod(k, s.nodes)); err != nil {
			return err
		}
	}
	return nil
}
