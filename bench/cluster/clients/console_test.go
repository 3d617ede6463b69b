package clients

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/bench/internal/process"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// A console of a coordinator in kube-scheduler's place tries changes on a copy that it reads from the API server with its user's rights.
func testConsoleTriesChanges(t *testing.T, r *rig) {
	web := build.Pod("web-1").Label("app", "web").CPU("3").Obj()
	web.Spec.Containers[0].Image = "web"
	set := build.ReplicaSet("default", "web", "app=web") // of one pod
	set.Spec.Template = v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: web.Labels}, Spec: web.Spec}
	set, err := r.Admin.AppsV1().ReplicaSets("default").Create(t.Context(), set, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	web.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
	r.Create(build.Node("n1").CPU("4").Obj(), build.Node("n2").CPU("2").Obj(), web)
	r.Coordinator(testbed.Scheduler{})
	if node := r.Bound("default/web-1"); node != "n1" {
		t.Fatalf("got the pod on %s, want n1", node)
	}
	user := r.user(t, "looks", append(mayList(listed(t)), mayFind())...)

	console, err := process.NewGroup(t.TempDir()).Start("console", r.program, "console", "--kubeconfig", user, "--listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { testbed.Stop(console) })
	at := address(t, r, console)
	ask := func(format string) string {
		t.Helper()
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		form.WriteField("drain", "n1")
		form.WriteField("form", format)
		form.Close()
		request, err := http.NewRequestWithContext(r.Context(), http.MethodPost, at+"whatif", &body)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", form.FormDataContentType())
		request.Header.Set("Sec-Fetch-Site", "same-origin")
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("got %d, %v: %s", answer.StatusCode, err, text)
		}
		return string(text)
	}
	if page := ask(""); !strings.Contains(page, "No: 1 more pods pend than before.") {
		t.Errorf("got %s\nwant that the pod pends", page)
	}
	want := r.run(t, "simulate", "--live", "--kubeconfig", user, "--drain", "n1", "-o", "json")
	if got := ask("json"); want.code != 2 || got != want.out {
		t.Errorf("got %s\nwant what simulate says, with exit code 2: %d, %s%s", got, want.code, want.out, want.told)
	}
}

// address is where a console is.
func address(t *testing.T, r *rig, console *process.Process) string {
	t.Helper()
	at, err := console.Line(r.Context(), "See it in a browser: ")
	if err != nil {
		t.Fatalf("%v: %s", err, strings.Join(console.Tail(20), "\n"))
	}
	return at
}
