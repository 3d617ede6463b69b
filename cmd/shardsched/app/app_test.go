package app

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
)

func none(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return nil, nil }

func TestNamesThatAreTaken(t *testing.T) {
	for name, options := range map[string][]Option{
		"Mine":             {WithPlugin("Mine", none), WithPlugin("Mine", none)},
		"NodeResourcesFit": {WithPlugin("NodeResourcesFit", none)},
	} {
		root := NewSchedulerCommand(options...)
		var out strings.Builder
		root.SetOut(&out)
		root.SetArgs([]string{"version"})
		err := root.ExecuteContext(t.Context())
		if want := "a plugin named " + name + " already exists"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestACommandWithAPlugin(t *testing.T) {
	root := NewSchedulerCommand(WithPlugin("Mine", none))
	root.SetArgs([]string{"version"})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"coordinator", "up", "simulate", "worker", "apply", "explain"} {
		if c, _, err := root.Find([]string{name}); err != nil || c.Name() != name {
			t.Errorf("got no command %s: %v", name, err)
		}
	}
}

// A handler that panics about one object is told of the next.
func TestAHandlerOfAnInformerThatPanicsGoesOn(t *testing.T) {
	os.Args = []string{"shardsched", "version"}
	if code := Run(NewSchedulerCommand()); code != 0 {
		t.Fatalf("got exit code %d, want 0", code)
	}
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "poison"}})
		factory := informers.NewSharedInformerFactory(client, 0)
		var added []string
		if _, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
			if added = append(added, o.(*v1.Pod).Name); o.(*v1.Pod).Name == "poison" {
				panic("poison")
			}
		}}); err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		factory.Start(stop)
		synctest.Wait()
		if _, err := client.CoreV1().Pods("x").Create(t.Context(), &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "other"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // synctest's clock: until the handler is called again
		synctest.Wait()
		if want := []string{"poison", "other"}; !slices.Equal(added, want) {
			t.Errorf("got %v, want %v", added, want)
		}
		close(stop)
		factory.Shutdown()
	})
}
