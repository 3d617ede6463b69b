package kube_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/shardsched/shardsched/coordinator/kube"
)

const protobuf = "application/vnd.kubernetes.protobuf"

// yes is a server that says 201 to everything, without TLS: what is measured is the
// client, and as little of a server as there can be.
func yes(b *testing.B) *rest.Config {
	empty := []byte("k8s\x00\n\n\n\x02v1\x12\x04List\x12\x00\x1a\x00\"\x00")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header().Set("Content-Type", protobuf)
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(empty)
	}))
	b.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: protobuf}}
}

// BenchmarkBind is a bind, and upstream's way to it.
func BenchmarkBind(b *testing.B) {
	p := pod("a")
	b.Run("ours", func(b *testing.B) {
		clients, err := kube.NewClients(b.Context(), kube.ClientConfig{REST: yes(b), QPS: -1})
		if err != nil {
			b.Fatal(err)
		}
		binder := kube.NewBinder(kube.BinderConfig{Clients: clients})
		b.ReportAllocs()
		for b.Loop() {
			if err := bindOne(b.Context(), binder); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("client-go", func(b *testing.B) {
		client, err := kubernetes.NewForConfig(yes(b))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if err := client.CoreV1().Pods(p.Namespace).Bind(b.Context(), &v1.Binding{
				ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID},
				Target:     v1.ObjectReference{Kind: "Node", Name: "n1"},
			}, metav1.CreateOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
