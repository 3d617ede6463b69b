package kubeserving

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/server/healthz"
	apiserveroptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/compatibility"
	cliflag "k8s.io/component-base/cli/flag"

	"k8s.io/apiserver/pkg/server"
)

// testConfig serves everything there is, of a scheduler that leads or not.
func testConfig(leading bool) Config {
	registry := prometheus.NewRegistry()
	bound := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "shardsched_test_total"}, []string{"result"})
	bound.WithLabelValues("good").Add(3)
	bound.WithLabelValues("bad").Add(2)
	bound.WithLabelValues("worse").Add(5)
	registry.MustRegister(bound, NewBuildInfo(version.Info{Major: "1", GitVersion: "v1.36.3+test"}))
	var sets cliflag.NamedFlagSets
	sets.FlagSet("ours").String("listen", "here", "")
	sync := func(*http.Request) error {
		if leading {
			return nil
		}
		return errors.New("handlers are not fully synchronized")
	}
	return Config{
		Healthy:       []healthz.HealthChecker{healthz.NamedCheck("leaderElection", func(*http.Request) error { return nil })},
		Ready:         []healthz.HealthChecker{healthz.NamedCheck("sched-handler-sync", sync)},
		Gatherer:      registry,
		Pods:          func() []*v1.Pod { return testPods() },
		Leading:       func() bool { return leading },
		Configuration: map[string]string{"kind": "KubeSchedulerConfiguration"},
		Flags:         &sets,
		Version:       compatibility.DefaultBuildEffectiveVersion(),
		Profiling:     true,
		Console:       http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "console at "+r.URL.Path) }),
	}
}

func testPods() []*v1.Pod {
	priority := int32(7)
	pod := func(name, node string, phase v1.PodPhase) *v1.Pod {
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
			Spec: v1.PodSpec{
				NodeName: node, SchedulerName: "default-scheduler", Priority: &priority,
				Overhead: v1.ResourceList{"cpu": resource.MustParse("100m")},
				Containers: []v1.Container{{Resources: v1.ResourceRequirements{
					Requests: v1.ResourceList{"cpu": resource.MustParse("1500m"), "example.com/gpu": resource.MustParse("2"), "hugepages-2Mi": resource.MustParse("4Mi")},
					Limits:   v1.ResourceList{"memory": resource.MustParse("1Gi")},
				}}},
			},
			Status: v1.PodStatus{Phase: phase},
		}
	}
	return []*v1.Pod{pod("runs", "n1", v1.PodRunning), pod("waits", "", v1.PodPending), pod("done", "n1", v1.PodSucceeded)}
}

func ask(h http.Handler, method, path string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader("3")))
	return w.Code, w.Body.String()
}

func TestEndpoints(t *testing.T) {
	leader, standby := testConfig(true).Handler(), testConfig(false).Handler()
	quiet := testConfig(true)
	quiet.Profiling, quiet.Flags, quiet.Version = false, nil, nil
	for _, test := range []struct {
		name, path string
		handler    http.Handler
		code       int
		want       string
	}{
		{"healthy", "/healthz", standby, 200, "ok"},
		{"healthy in words", "/healthz?verbose", standby, 200, "[+]leaderElection ok"},
		{"one check", "/healthz/leaderElection", standby, 200, "ok"},
		{"live", "/livez?verbose", standby, 200, "[+]ping ok"},
		{"not ready", "/readyz", standby, 500, "[-]sched-handler-sync failed"},
		{"a check left out", "/readyz?exclude=sched-handler-sync", standby, 200, "ok"},
		{"ready", "/readyz?verbose", leader, 200, "[+]sched-handler-sync ok"},
		{"our metrics", "/metrics", standby, 200, `shardsched_test_total{result="good"} 3`},
		{"the libraries' metrics", "/metrics", standby, 200, "rest_client_transport_cache_entries"},
		{"the build", "/metrics", standby, 200, `git_version="v1.36.3+test"`},
		{"one gatherer of the process's", "/metrics", standby, 200, "process_cpu_seconds_total"},
		{"resources of a pod", "/metrics/resources", leader, 200, `kube_pod_resource_request{namespace="ns",node="n1",pod="runs",priority="7",resource="cpu",scheduler="default-scheduler",unit="cores"} 1.6`},
		{"pieces", "/metrics/resources", leader, 200, `resource="example.com/gpu",scheduler="default-scheduler",unit=""} 2`},
		{"huge pages", "/metrics/resources", leader, 200, `resource="hugepages-2Mi",scheduler="default-scheduler",unit="bytes"} 4.194304e+06`},
		{"a limit", "/metrics/resources", leader, 200, `kube_pod_resource_limit{namespace="ns",node="",pod="waits",priority="7",resource="memory",scheduler="default-scheduler",unit="bytes"} 1.073741824e+09`},
		{"no resources of a standby", "/metrics/resources", standby, 200, ""},
		{"console", "/console/workers", standby, 200, "console at /console/workers"},
		{"console without a slash", "/console", standby, 200, "console at /console"},
		{"indicators", "/metrics/slis", standby, 200, "kubernetes_healthcheck"},
		{"configuration", "/configz", standby, 200, `{"componentconfig":{"kind":"KubeSchedulerConfiguration"}}`},
		{"flags", "/flagz", standby, 200, "here"},
		{"no flags", "/flagz", quiet.Handler(), 404, ""},
		{"status", "/statusz", standby, 200, "1.36"},
		{"profiles", "/debug/pprof/", standby, 200, "goroutine"},
		{"no profiles", "/debug/pprof/", quiet.Handler(), 404, ""},
		{"nothing else", "/nothing", standby, 404, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, body := ask(test.handler, "GET", test.path)
			if code != test.code || !strings.Contains(body, test.want) {
				t.Errorf("%s: want %d with %q, got %d\n%s", test.path, test.code, test.want, code, body)
			}
			if strings.HasSuffix(test.name, "of a standby") && body != "" {
				t.Errorf("%s: want nothing, got\n%s", test.path, body)
			}
			if strings.Contains(body, `pod="done"`) {
				t.Errorf("%s: want no pod that has ended, got\n%s", test.path, body)
			}
		})
	}
}

func TestMetricsAreFiltered(t *testing.T) {
	c := testConfig(true)
	c.Filter = NewMetricsFilter([]string{"kubernetes_build_info"})
	c.Filter.Allow("shardsched_test_total", "result", []string{"good"})
	_, body := ask(c.Handler(), "GET", "/metrics")
	for text, want := range map[string]bool{
		`shardsched_test_total{result="good"} 3`:       true,
		`shardsched_test_total{result="unexpected"} 7`: true,
		`result="bad"`:          false,
		"kubernetes_build_info": false,
	} {
		if strings.Contains(body, text) != want {
			t.Errorf("%s: want there %v, got %v", text, want, !want)
		}
	}
}

// TestGuard asks as nobody, as one who may not, and as one who may.
func TestGuard(t *testing.T) {
	who := authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, ok, nil
	})
	may := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetUser().GetName() == "admin" && a.GetPath() == "/metrics" && a.GetVerb() == "get" && !a.IsResourceRequest() {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionDeny, "no", nil
	})
	h := Guard(testConfig(true).Handler(), who, may)
	for _, test := range []struct {
		token, path string
		want        int
	}{{"", "/metrics", 401}, {"other", "/metrics", 403}, {"admin", "/metrics", 200}, {"admin", "/configz", 403}} {
		r := httptest.NewRequest("GET", test.path, nil)
		if test.token != "" {
			r.Header.Set("Authorization", "Bearer "+test.token)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != test.want {
			t.Errorf("%q asks for %s: want %d, got %d %s", test.token, test.path, test.want, w.Code, w.Body)
		}
	}
}

// TestServe answers over HTTPS with a certificate of its own until it is told to end, whoever opens connections
// and says nothing.
func TestServe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := apiserveroptions.NewSecureServingOptions()
	o.Listener, o.ServerCert.CertDirectory = l, ""
	if err := o.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{net.IPv4(127, 0, 0, 1)}); err != nil {
		t.Fatal(err)
	}
	var info *server.SecureServingInfo
	if err := o.ApplyTo(&info); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, info, testConfig(true).Handler()) }()
	var silent []net.Conn
	for range 2 * 64 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		silent = append(silent, c)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	answer, err := client.Get("https://" + l.Addr().String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(answer.Body)
	answer.Body.Close()
	if string(body) != "ok" {
		t.Errorf("want ok, got %q", body)
	}
	// All connections were accepted before the one that was answered. The first ones are closed: to read from them ends.
	for i, c := range silent[:64] {
		c.SetReadDeadline(time.Now().Add(5 * time.Second)) // less than a handshake may take
		if _, err := c.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("connection %d of %d is open after the others came", i, len(silent))
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("at the end: want no error, got %v", err)
	}
}

// TestFlagsAreRead holds that flags are shown as they are when they are asked for.
func TestFlagsAreRead(t *testing.T) {
	c := testConfig(true)
	c.Flags.FlagSets["ours"].VisitAll(func(f *pflag.Flag) { f.Value.Set("there") })
	if _, body := ask(c.Handler(), "GET", "/flagz"); !strings.Contains(body, "there") {
		t.Errorf("want listen there, got\n%s", body)
	}
	if code, body := ask(c.Handler(), "PUT", "/debug/flags/v"); code != 200 {
		t.Errorf("verbosity: want 200, got %d %s", code, body)
	}
}
