package holder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
	spdyserver "k8s.io/streaming/pkg/httpstream/spdy"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/cmd/internal/client"
	"github.com/shardsched/shardsched/coordinator/kube"
)

// lease is one as an API server tells it.
func lease(holder, annotation string) string {
	notes, _ := json.Marshal(map[string]string{kube.HolderAnnotation: annotation})
	return fmt.Sprintf(`{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"namespace": "kube-system", "name": "kube-scheduler", "annotations": %s},
		"spec": {"holderIdentity": %q}}`, notes, holder)
}

func note(identity, address, pod string) string {
	return fmt.Sprintf(`{"identity": %q, "address": %q, "pod": %q}`, identity, address, pod)
}

// apiServer has one Lease, and forwards to any port of its one pod, which is this host.
type apiServer struct {
	lease    string // empty: there is none
	refuses  bool   // to forward
	mu       sync.Mutex
	forwards []string // ports
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler" && a.lease != "":
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, a.lease)
	case r.URL.Path == "/api/v1/namespaces/kube-system/pods/a/portforward" && a.refuses:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "pods/portforward is forbidden", "reason": "Forbidden", "code": 403}`)
	case r.URL.Path == "/api/v1/namespaces/kube-system/pods/a/portforward" && r.Method == http.MethodPost:
		a.forward(w, r)
	case strings.HasSuffix(r.URL.Path, "/portforward"):
		http.Error(w, "no WebSockets here", http.StatusBadRequest)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "not found", "reason": "NotFound", "code": 404}`)
	}
}

// forward does what a kubelet does.
func (a *apiServer) forward(w http.ResponseWriter, r *http.Request) {
	if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
		return
	}
	conn := spdyserver.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, replied <-chan struct{}) error {
		if s.Headers().Get(v1.StreamType) == v1.StreamTypeError {
			go func() { <-replied; s.Close() }()
			return nil
		}
		port := s.Headers().Get(v1.PortHeader)
		a.mu.Lock()
		a.forwards = append(a.forwards, port)
		a.mu.Unlock()
		go func() {
			<-replied
			to, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err != nil {
				s.Reset()
				return
			}
			go func() { io.Copy(to, s); to.(*net.TCPConn).CloseWrite() }()
			io.Copy(s, to)
			s.Close()
		}()
		return nil
	})
	if conn != nil {
		<-conn.CloseChan()
	}
}

func (a *apiServer) finder(t *testing.T) *Finder {
	t.Helper()
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	f, err := New(&rest.Config{Host: s.URL}, "kube-system", "kube-scheduler")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// What the Lease says is an address, or an error that says what is the matter; only where nobody holds it is it worth while to wait.
func TestFind(t *testing.T) {
	us := kube.HolderIdentity("vm_1", "g")
	for name, x := range map[string]struct {
		lease, want, err string
		again            bool
	}{
		"an address":         {lease: lease(us, note(us, "10.0.0.1:7450", "")), want: "10.0.0.1:7450"},
		"no Lease":           {err: "there is no Lease kube-system/kube-scheduler"},
		"nobody holds it":    {lease: lease("", ""), err: "nobody holds Lease kube-system/kube-scheduler", again: true},
		"a kube-scheduler":   {lease: lease("vm_5f68", note(us, "10.0.0.1:7450", "")), err: "kube-scheduler vm_5f68 holds kube-system/kube-scheduler: no coordinator leads"},
		"an older one's":     {lease: lease(us, ""), err: "does not say there how clients reach it"},
		"another's note":     {lease: lease(us, note("x", "10.0.0.1:7450", "")), err: "does not say there how clients reach it"},
		"nonsense":           {lease: lease(us, "{"), err: "does not say there how clients reach it"},
		"a socket":           {lease: lease(us, note(us, "", "")), err: "serves clients on a socket of its own host: run this there"},
		"a pod's socket":     {lease: lease(us, note(us, "", "kube-system/a")), err: "serves clients on a socket in its pod: kubectl exec -n kube-system a -- shardsched"},
		"a pod without port": {lease: lease(us, note(us, "nonsense", "kube-system/a")), err: "address of pod kube-system/a: address nonsense: missing port"},
		"a pod that is gone": {lease: lease(us, note(us, "127.0.0.1:7450", "kube-system/b")), err: "port-forward to pod kube-system/b, where the leader is", again: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := (&apiServer{lease: x.lease}).finder(t).Find(t.Context())
			if got != x.want || (err == nil) != (x.err == "") || err != nil && !strings.Contains(err.Error(), x.err) {
				t.Errorf("got %q, %v, want %q, %s", got, err, x.want, x.err)
			}
			if final := (*client.FinalError)(nil); err != nil && errors.As(err, &final) == x.again {
				t.Errorf("got %v, want it to be final: %t", err, !x.again)
			}
		})
	}
}

// A pod is reached through the API server, by one port-forward for as long as it leads.
func TestFindForwards(t *testing.T) {
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "the leader") }))
	defer leader.Close()
	us := kube.HolderIdentity("vm_1", "g")
	_, port, _ := net.SplitHostPort(leader.Listener.Addr().String())
	a := &apiServer{lease: lease(us, note(us, "127.0.0.1:"+port, "kube-system/a"))}
	f := a.finder(t)
	var local string
	for range 2 {
		found, err := f.Find(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if local != "" && found != local {
			t.Errorf("got %s, and before %s; want one port-forward", found, local)
		}
		local = found
		answer, err := http.Get("http://" + local)
		if err != nil {
			t.Fatal(err)
		}
		var body bytes.Buffer
		io.Copy(&body, answer.Body)
		answer.Body.Close()
		if body.String() != "the leader" || !strings.HasPrefix(local, "127.0.0.1:") || strings.HasSuffix(local, ":"+port) {
			t.Errorf("got %q at %s, want the leader at another port", &body, local)
		}
	}
	a.mu.Lock()
	if len(a.forwards) == 0 || a.forwards[0] != port {
		t.Errorf("forwarded to %q, want %s", a.forwards, port)
	}
	a.mu.Unlock()
	f.Close()
	if _, err := net.Dial("tcp", local); err == nil {
		t.Errorf("%s is open after the end", local)
	}

	a.refuses = true
	_, err := a.finder(t).Find(t.Context())
	if err == nil || !strings.Contains(err.Error(), "port-forward to pod kube-system/a, where the leader is: ") {
		t.Errorf("forbidden: got %v, want an error that says what is", err)
	}
}
