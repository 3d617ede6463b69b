package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	switch {
	case len(args) == 4 && args[0] == "annotate" && args[1] == "node":
		return annotate(ctx, client, args[2], args[3])
	case len(args) == 3 && args[0] == "apply" && args[1] == "-f":
		return apply(ctx, client, args[2])
	case len(args) > 3 && args[0] == "wait":
		return await(ctx, client, args[1], args[2], args[3:])
	case len(args) == 4 && args[0] == "get" && args[1] == "pods" && args[2] == "-o":
		return list(ctx, client)
	}
	return fmt.Errorf("%q is not among what this program does", args)
}

func annotate(ctx context.Context, client kubernetes.Interface, node, annotation string) error {
	name, value, ok := strings.Cut(annotation, "=")
	if !ok {
		return fmt.Errorf("%q is not KEY=VALUE", annotation)
	}
	patch := fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`, name, value)
	_, err := client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

func apply(ctx context.Context, client kubernetes.Interface, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var p v1.Pod
		if err := yaml.UnmarshalStrict(document, &p); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if _, err := client.CoreV1().Pods(p.Namespace).Create(ctx, &p, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func await(ctx context.Context, client kubernetes.Interface, what, within string, pods []string) error {
	condition, isCondition := strings.CutPrefix(what, "--for=condition=")
	within, isTimeout := strings.CutPrefix(within, "--timeout=")
	timeout, err := time.ParseDuration(within)
	if !isCondition || !isTimeout || err != nil {
		return errors.Join(fmt.Errorf("expected --for=condition=TYPE --timeout=DURATION, got %q %q", what, within), err)
	}
	for _, name := range pods {
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
			p, err := client.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, strings.TrimPrefix(name, "pod/"), metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			for _, c := range p.Status.Conditions {
				if string(c.Type) == condition && c.Status == v1.ConditionTrue {
					return true, nil
				}
			}
			return false, nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func list(ctx context.Context, client kubernetes.Interface) error {
	pods, err := client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	fmt.Println("POD   NODE")
	for _, p := range pods.Items {
		fmt.Printf("%-5s %s\n", p.Name, p.Spec.NodeName)
	}
	return nil
}
