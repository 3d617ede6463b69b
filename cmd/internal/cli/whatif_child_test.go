package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/cmd/internal/console"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

const whatIfFolder = "../../../docs/what-if/"

func testSimulator(cluster func(context.Context, io.Writer) error, args ...string) *simulator {
	m := newSimulator(cluster, args...)
	m.env = []string{asProgram + "=1"}
	return m
}

// post sends the page's form.
func post(h http.Handler, fields ...string) *httptest.ResponseRecorder {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for i := 0; i < len(fields); i += 2 {
		form.WriteField(fields[i], fields[i+1])
	}
	form.Close()
	r := httptest.NewRequest(http.MethodPost, "/console/whatif", &body)
	r.Header.Set("Content-Type", form.FormDataContentType())
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestTheWhatIfPageSaysWhatSimulateSays holds the page's file to the command's output, byte by byte, by the command line that the page
// names.
func TestTheWhatIfPageSaysWhatSimulateSays(t *testing.T) {
	dump := whatIfFolder + "cluster.yaml"
	manifests, err := os.ReadFile(whatIfFolder + "new.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, err = served(t, &offline{files: []string{dump}, namespace: "default", childEnv: []string{asProgram + "=1"}}, func(h http.Handler) {
		for name, x := range map[string]struct {
			form, args []string
		}{
			"drain": {[]string{"drain", "node-1, node-2"}, []string{"--drain", "node-1", "--drain", "node-2"}},
			"manifests": {[]string{"manifests", string(manifests), "cordon", "node-3"},
				[]string{"-f", whatIfFolder + "new.yaml", "--cordon", "node-3"}},
			"all": {[]string{"drain", "node/node-1", "remove", "node-2", "add", "2=node-4", "scale", "Deployment/shop/web=6"},
				[]string{"--drain", "node-1", "--remove-node", "node-2", "--add-nodes", "2=node/node-4", "--scale", "deployment/shop/web=6"}},
		} {
			want, errs, code := command(t, append([]string{"simulate", "-f", dump, "-o", "json"}, x.args...)...)
			if code == exitFailed {
				t.Fatalf("%s: %s", name, errs)
			}
			w := post(h, append(x.form, "form", "json")...)
			if got := w.Body.String(); w.Code != 200 || got != want || !strings.HasPrefix(w.Header().Get("Content-Disposition"), "attachment") {
				t.Errorf("%s: got %d %s\nwant %s", name, w.Code, got, want)
			}
			if page := post(h, x.form...).Body.String(); !strings.Contains(page, "Workloads of the change") ||
				!strings.Contains(page, "shardsched simulate --namespace=default --filename="+dump) {
				t.Errorf("%s: got %s, want the table and the command line", name, page)
			}
		}
		if page := post(h, "drain", "node-1").Body.String(); !strings.Contains(page, "drain of node-1: it is empty") ||
			!strings.Contains(page, "Yes: all of the change has a place") {
			t.Errorf("got %s, want a yes in one step", page)
		}
		for _, x := range [][]string{
			{"drain", "nope", "there is no such node in the input"},
			{"manifests", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containres: []}\n", "manifests:4: Pod a: spec.containres: unknown field"},
			{"manifests", "{{<script>alert(1)</script>", "manifests:1"},
			{"manifests", "apiVersion: v1\nkind: Pod\nmetadata: {name: <script>alert(1)</script>}\nspec: {containers: [{name: c}]}\n", "metadata.name"},
		} {
			page := post(h, x[0], x[1]).Body.String()
			if !strings.Contains(page, x[2]) || strings.Contains(page, "<script>alert") {
				t.Errorf("%s: got %s, want it refused: %s", x[1], page, x[2])
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestQuestionsAreBounded answers one at a time, for so long, and ends with whoever asks.
func TestQuestionsAreBounded(t *testing.T) {
	begun, ended := make(chan struct{}, 4), make(chan struct{}, 4)
	endless := func(ctx context.Context, out io.Writer) error {
		begun <- struct{}{}
		for line := "{\n"; ; line = "\n" {
			if _, err := io.WriteString(out, line); err != nil || ctx.Err() != nil {
				ended <- struct{}{}
				return cmpErr(ctx.Err(), err)
			}
		}
	}
	m := testSimulator(endless)
	q := &console.Question{Drain: []string{"a"}}
	ctx, leave := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { _, _, err := m.answer(ctx, q); first <- err }()
	<-begun
	if _, _, err := m.answer(t.Context(), q); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a second question: got %v, want it refused", err)
	}
	leave()
	if err := <-first; status.Code(err) != codes.Canceled {
		t.Errorf("got %v, want it to end with whoever asks", err)
	}
	<-ended
	m.time = time.Second
	if _, _, err := m.answer(t.Context(), q); status.Code(err) != codes.DeadlineExceeded || !strings.Contains(err.Error(), "no answer after 1s") {
		t.Errorf("got %v, want it to be given up", err)
	}
	<-ended
	broken := testSimulator(func(context.Context, io.Writer) error { return errors.New("the store is away") })
	if _, _, err := broken.answer(t.Context(), q); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "the store is away") {
		t.Errorf("got %v, want why there is no copy", err)
	}
}

// TestAChildThatReadsNoFurtherEndsTheCopy has the next question answered: what makes the copy does not wait for a reader that is gone.
func TestAChildThatReadsNoFurtherEndsTheCopy(t *testing.T) {
	begun := make(chan struct{}, 2)
	m := testSimulator(func(_ context.Context, out io.Writer) error { // a page of a list asks no context between its objects
		begun <- struct{}{}
		line := strings.Repeat("\n", 64<<10)
		for {
			if _, err := io.WriteString(out, line); err != nil {
				return err
			}
		}
	}, "--no-such-flag")
	q := &console.Question{Drain: []string{"a"}}
	if _, said, err := m.answer(t.Context(), q); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "no-such-flag") {
		t.Errorf("got %v, %q, want why the child has ended", err, said)
	}
	<-begun
	m.args = []string{"-f", "-"}
	ctx, leave := context.WithCancel(t.Context())
	go func() { <-begun; leave() }()
	if _, _, err := m.answer(ctx, q); status.Code(err) != codes.Canceled {
		t.Errorf("got %v, want it to end with whoever asks", err)
	}
	if len(m.turn) != 1 {
		t.Error("nobody can ask any more")
	}
}

func cmpErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// store keeps objects as a coordinator does, two a page; held: an API server has them.
type store struct {
	pb.UnimplementedSchedulerServiceServer
	held    bool
	objects []objects.Object
}

func (s *store) Invoke(_ context.Context, method string, request, reply any, _ ...grpc.CallOption) error {
	if s.held {
		refused, _ := status.New(codes.FailedPrecondition, "objects are the API server's").WithDetails(&pb.NotKept{})
		return refused.Err()
	}
	in, out := request.(*pb.ListObjectsRequest), reply.(*pb.ListObjectsResponse)
	var of []objects.Object
	for _, obj := range s.objects {
		if string(objects.KindOf(obj)) == in.Kind {
			of = append(of, obj)
		}
	}
	var from int
	fmt.Sscan(in.ContinueToken, &from)
	for _, obj := range of[from:min(from+2, len(of))] {
		raw, err := objects.Encode(obj)
		if err != nil {
			return err
		}
		out.Objects = append(out.Objects, &pb.Object{Raw: raw})
	}
	if from+2 < len(of) {
		out.ContinueToken = fmt.Sprint(from + 2)
	}
	return nil
}

func (s *store) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.New("no streams")
}

// TestTheCoordinatorsConfigurationDecides has a pod that fits where a configuration says so, and tells an error without the log before it.
func TestTheCoordinatorsConfigurationDecides(t *testing.T) {
	m := testSimulator(copyOfStore(&store{objects: []objects.Object{build.Node("n0").CPU("4").Memory("8Gi").Pods("9").Obj()}}, nil))
	large := &console.Question{Manifests: "{apiVersion: v1, kind: Pod, metadata: {name: large}, spec: {containers: [{name: a, image: a, resources: " +
		"{requests: {cpu: 8}}}]}}"}
	for _, test := range []struct {
		config string
		fits   bool
	}{
		{"", false},
		{"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" +
			"profiles: [{plugins: {filter: {disabled: [{name: NodeResourcesFit}]}}}]", true},
	} {
		m.config = test.config
		report, said, err := m.answer(t.Context(), large)
		if err != nil || strings.Contains(string(report), "larger than any node") == test.fits {
			t.Errorf("config %q: got %s, %s, %v, want that the pod fits: %v", test.config, report, said, err, test.fits)
		}
	}
	if _, _, err := m.answer(t.Context(), &console.Question{Drain: []string{"away"}}); err == nil ||
		!strings.HasPrefix(status.Convert(err).Message(), "--drain") {
		t.Errorf("got %v, want what is wrong with the question alone", err)
	}
}

// TestTheCopyOfAStore has all that a coordinator keeps but environment variables, and is tried by simulate.
func TestTheCopyOfAStore(t *testing.T) {
	s := &store{}
	for i := range 5 {
		s.objects = append(s.objects, build.Node(fmt.Sprint("n", i)).CPU("4").Memory("8Gi").Obj())
	}
	p := build.Pod("web").UID("web").CPU("3").Node("n0").Obj()
	p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, v1.EnvVar{Name: "TOKEN", Value: "s3cr3t"})
	p.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "s3cr3t"}
	s.objects = append(s.objects, p)
	copied := copyOfStore(s, func(context.Context, io.Writer) error { return errors.New("asked elsewhere") })
	var out bytes.Buffer
	if err := copied(t.Context(), &out); err != nil || strings.Contains(out.String(), "s3cr3t") || strings.Count(out.String(), `"kind":"Node"`) != 5 {
		t.Errorf("got %v and %s, want five nodes, and nothing of the environment", err, out.String())
	}
	if p.Spec.Containers[0].Env == nil {
		t.Error("the pod itself was changed")
	}
	report, _, err := testSimulator(copied).answer(t.Context(), &console.Question{Drain: []string{"n0"}})
	if err != nil || !strings.Contains(string(report), `"name": "web"`) {
		t.Errorf("got %s, %v, want what becomes of the pod", report, err)
	}
	s.held = true
	if err := copied(t.Context(), io.Discard); err == nil || err.Error() != "asked elsewhere" {
		t.Errorf("got %v, want the API server asked", err)
	}
}
