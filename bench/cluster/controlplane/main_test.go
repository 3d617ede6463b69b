package main

import (
	"bufio"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
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
