package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
)

// It starts, says how kubectl is to be set, and ends when it is interrupted.
func TestCommand(t *testing.T) {
	ctx, interrupt := context.WithTimeout(t.Context(), 3*time.Minute)
	defer interrupt()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	out, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := command(ctx, []string{"-nodes=5", "-zones=2", "-scheduler=none", "-controllers=false", "-kubeconfig", kubeconfig}, w, t.Output())
		w.Close()
		ended <- err
	}()
	var said strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), "Interrupt") {
			if got := zones(ctx, t, kubeconfig); got["zone-a"] != 3 || got["zone-b"] != 2 {
				t.Errorf("nodes by zone: got %v, want 3 in zone-a and 2 in zone-b", got)
			}
			interrupt()
		}
	}
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	if want := "export KUBECONFIG=" + kubeconfig; !strings.Contains(said.String(), want) {
		t.Errorf("got\n%s\nwant a line %q", said.String(), want)
	}
}

// What the demo says is to be seen is to be seen, and what people try on a cluster with kubectl happens.
func TestDemo(t *testing.T) {
	ctx, interrupt := context.WithTimeout(t.Context(), 5*time.Minute)
	defer interrupt()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	out, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := command(ctx, []string{"-nodes=3", "-demo", "-node-grace=15s", "-kubeconfig", kubeconfig}, w, t.Output())
		w.Close()
		ended <- err
	}()
	var said strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), "Interrupt") {
			runPrinted(ctx, t, said.String())
			testHabits(ctx, t, kubeconfig)
			interrupt()
		}
	}
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	if addresses := regexp.MustCompile(`export SHARDSCHED_ADDRESS=127\.0\.0\.1:\d+,127\.0\.0\.1:\d+\n`); !addresses.MatchString(said.String()) {
		t.Errorf("got\n%s\nwant both coordinators' addresses to export", said.String())
	}
}

// runPrinted runs what is printed to be typed of shardsched, in a shell with what is printed to be exported: each command has something
// to show.
func runPrinted(ctx context.Context, t *testing.T, said string) {
	t.Helper()
	var exports []string
	shows := map[string]string{ // a part of what it prints
		"shardsched pending": "no node has label disk=ssd", "shardsched explain pod shop/vip": "preempts shop/fill-", "shardsched explain pod shop/picky": "is pending",
		"shardsched top nodes --kubeconfig $KUBECONFIG": "node-002", "shardsched trace": "k8s.pod.name=", "shardsched summary": "worker-0",
	}
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "export "):
			exports = append(exports, line)
		case strings.HasPrefix(line, "shardsched "):
			want := shows[line]
			delete(shows, line)
			out, err := exec.CommandContext(ctx, "sh", "-ec", strings.Join(append(exports, line), "\n")).CombinedOutput()
			if err != nil || want == "" || !strings.Contains(string(out), want) {
				t.Errorf("%s: %v, want %q in\n%s", line, err, want, out)
			}
		}
	}
	if len(shows) > 0 {
		t.Errorf("these are not printed to be typed: %v", shows)
	}
}

const habits = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: shop}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: a, image: a}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once, namespace: shop}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: a, image: a}]}
`

func testHabits(ctx context.Context, t *testing.T, kubeconfig string) {
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	k, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(habits, "\n---\n") {
		obj, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		switch obj := obj.(type) {
		case *appsv1.DaemonSet:
			_, err = k.AppsV1().DaemonSets("shop").Create(ctx, obj, metav1.CreateOptions{})
		case *batchv1.Job:
			_, err = k.BatchV1().Jobs("shop").Create(ctx, obj, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	until(ctx, t, "vip has pushed a pod of fill out", func() bool {
		events, err := k.CoreV1().Events("shop").List(ctx, metav1.ListOptions{FieldSelector: "reason=Preempted"})
		return err == nil && len(events.Items) == 1 && strings.HasPrefix(events.Items[0].InvolvedObject.Name, "fill-")
	})
	until(ctx, t, "vip has a node, picky has none, and one of fill waits", func() bool {
		vip, err := k.CoreV1().Pods("shop").Get(ctx, "vip", metav1.GetOptions{})
		pending, err2 := k.CoreV1().Pods("shop").List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Pending"})
		return err == nil && err2 == nil && vip.Spec.NodeName != "" && len(pending.Items) == 2
	})
	until(ctx, t, "web may lose one pod", func() bool {
		budget, err := k.PolicyV1().PodDisruptionBudgets("shop").Get(ctx, "web", metav1.GetOptions{})
		return err == nil && budget.Status.DisruptionsAllowed == 1
	})
	until(ctx, t, "the DaemonSet has a pod on each node", func() bool {
		d, err := k.AppsV1().DaemonSets("shop").Get(ctx, "agent", metav1.GetOptions{})
		return err == nil && d.Status.NumberReady == 3
	})
	until(ctx, t, "the Job is done", func() bool {
		j, err := k.BatchV1().Jobs("shop").Get(ctx, "once", metav1.GetOptions{})
		return err == nil && j.Status.Succeeded == 1
	})
	taint := []byte(`{"spec":{"taints":[{"key":"broken","effect":"NoExecute"}]}}`)
	if _, err := k.CoreV1().Nodes().Patch(ctx, "node-001", types.MergePatchType, taint, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	silence := []byte(`{"metadata":{"annotations":{"hollow.shardsched.io/silent":"yes"}}}`)
	if _, err := k.CoreV1().Nodes().Patch(ctx, "node-002", types.MergePatchType, silence, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "pods leave the node with a NoExecute taint", func() bool {
		pods, err := k.CoreV1().Pods("shop").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=node-001", LabelSelector: "app in (web,fill)"})
		return err == nil && len(pods.Items) == 0
	})
	until(ctx, t, "a node whose kubelet is silent is tainted, and the others are not", func() bool {
		nodes, err := k.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false
		}
		var unreachable []string
		for _, n := range nodes.Items {
			for _, taint := range n.Spec.Taints {
				if taint.Key == v1.TaintNodeUnreachable && taint.Effect == v1.TaintEffectNoExecute {
					unreachable = append(unreachable, n.Name)
				}
			}
		}
		return slices.Equal(unreachable, []string{"node-002"})
	})
}

// until waits for a condition as long as the test may take.
func until(ctx context.Context, t *testing.T, what string, met func() bool) {
	t.Helper()
	for !met() {
		select {
		case <-ctx.Done():
			t.Fatalf("waiting until %s: %v", what, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func zones(ctx context.Context, t *testing.T, kubeconfig string) map[string]int {
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	k, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := k.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	zones := map[string]int{}
	for _, n := range nodes.Items {
		zones[n.Labels["topology.kubernetes.io/zone"]]++
	}
	return zones
}
