package devices

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/bench/internal/process"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// killer stands between schedulers and the API server. It kills the scheduler when the API server has done a write about a pod or
// a claim, before the scheduler hears of it.
type killer struct {
	*testbed.Cluster
	kubeconfig string
	running    *testbed.SchedulerProcess
	etcd       *clientv3.Client
	starts     int

	mu sync.Mutex
	// left is how many writes are left until then, the last among them; 0: it kills nobody. Guarded by mu, as is victim.
	left   int
	victim *process.Process
	// writes are those since the last kill was planned; guarded by mu.
	writes []string
}

func newKiller(c *testbed.Cluster) *killer {
	c.T.Helper()
	k := &killer{Cluster: c}
	server, err := url.Parse(c.AdminREST.Host)
	k.must(err)
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(c.AdminREST))
	k.must(err)
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(server) },
		Transport:      transport,
		FlushInterval:  -1,
		ModifyResponse: k.done,
		ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	front := httptest.NewUnstartedServer(proxy)
	front.EnableHTTP2 = true
	front.StartTLS()
	c.T.Cleanup(func() { front.CloseClientConnections(); front.Close() })
	config, err := clientcmd.LoadFromFile(c.CoordinatorKubeconfig)
	k.must(err)
	for _, cluster := range config.Clusters {
		cluster.Server = front.URL
		cluster.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw})
	}
	k.kubeconfig = filepath.Join(c.Dir(), "killer.kubeconfig")
	k.must(clientcmd.WriteToFile(*config, k.kubeconfig))
	k.etcd, err = clientv3.New(clientv3.Config{Endpoints: []string{c.OwnEtcdEndpoint()}, Logger: zap.NewNop()})
	k.must(err)
	c.T.Cleanup(func() { k.etcd.Close() })
	return k
}

func (k *killer) must(err error) {
	k.T.Helper()
	if err != nil {
		k.T.Fatal(err)
	}
}

// done is called for each answer of the API server, before it is handed on.
func (k *killer) done(answer *http.Response) error {
	r := answer.Request
	if r.Method == http.MethodGet || !strings.Contains(r.URL.Path, "/resourceclaims") && !strings.Contains(r.URL.Path, "/pods/killed-") {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.left == 0 {
		return nil
	}
	k.writes = append(k.writes, r.Method+" "+r.URL.Path)
	if k.left--; k.left > 0 {
		return nil
	}
	k.victim.Kill()
	return errors.New("the scheduler is killed")
}

// killAfter plans to kill the scheduler that runs after so many writes.
func (k *killer) killAfter(writes int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left, k.victim, k.writes = writes, k.running.Process, nil
}

// start starts a scheduler after the one before it has died, whose lease has run out. It is killed after so many writes; 0: it
// is not.
func (k *killer) start(writes int) {
	k.T.Helper()
	ctx := k.Context()
	leaders, err := k.etcd.Get(ctx, "/shardsched/testbed/leader/", clientv3.WithPrefix())
	k.must(err)
	for _, kv := range leaders.Kvs {
		_, err := k.etcd.Revoke(ctx, clientv3.LeaseID(kv.Lease))
		k.must(err)
	}
	k.mu.Lock()
	k.left = 0
	k.mu.Unlock()
	k.starts++
	s := testbed.Scheduler{Name: fmt.Sprint("coordinator-", k.starts), Kubeconfig: k.kubeconfig, Args: []string{"--local-workers=1"}}
	run, err := k.Bed.Coordinator(ctx, s)
	k.must(err)
	k.running = run
	k.killAfter(writes)
}

// TestTheNextLeaderGoesOnWhereOneWasKilled kills schedulers after each write of a binding with claims, and those that take over
// after some of their own.
func TestTheNextLeaderGoesOnWhereOneWasKilled(t *testing.T) {
	// The writes of a binding: nomination, finalizer, allocation; claim for extended resources, finalizer, allocation, the pod's
	// status; bind.
	kills := [][]int{{1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}, {4, 1}, {6, 1}, {6, 2}}
	const name, resource = "killed", "example.com/killed"
	c := testbed.New(t, testbed.Config{})
	c.Controllers("resourceclaim", "garbagecollector")
	gpus := class(name)
	extended := resource
	gpus.Spec.ExtendedResourceName = &extended
	var devices []string
	for i := range 2 * len(kills) { // none to spare: a device that leaks is missed
		devices = append(devices, "d"+number(i))
	}
	c.Create(build.Node(node(name, 0)).CPU("64").Memory("64Gi").Resource("pods", "1000").Zone(name).Obj(), gpus, slice(name, 0, named(devices...)...))
	k := newKiller(c)
	k.start(0)
	var keys []string
	for i, after := range kills {
		p := with(build.Pod(fmt.Sprint(name, "-", i)).CPU("10m").Request(resource, "1"), fmt.Sprint(name, "-", i))
		p.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceName(resource): p.Spec.Containers[0].Resources.Requests[v1.ResourceName(resource)]}
		keys = append(keys, "default/"+p.Name)
		c.Create(claim(p.Name, one(name)))
		k.killAfter(after[0])
		c.Create(p)
		for _, next := range append(after[1:], 0) {
			select {
			case <-k.running.Done():
			case <-k.Context().Done():
				t.Fatalf("%v: the scheduler lives on after the writes %q, %s", after, k.writes, testbed.Describe(c.Pods.Get("default/"+p.Name)))
			}
			k.start(next)
		}
		c.Bound("default/" + p.Name)
		checkBound(t, c, keys)
	}
	if denied := testbed.Denied(c.Audited()); len(denied) > 0 {
		t.Errorf("denied: %q", denied)
	}
	c.Delete(keys...)
	for {
		left := allocatedClaims(t.Context(), t, c)
		if len(left) == 0 {
			break
		}
		select {
		case <-c.Context().Done():
			t.Fatalf("pods are gone, and their claims have devices: %q", left)
		default:
		}
	}
}

// checkBound checks that the pods so far have a device by a claim of their own and another for their extended resource, and that
// there are no other claims.
func checkBound(t *testing.T, c *testbed.Cluster, keys []string) {
	t.Helper()
	list, err := c.Admin.ResourceV1().ResourceClaims("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	taken, claims := map[string]string{}, map[string]resourcev1.ResourceClaim{}
	for _, x := range list.Items {
		claims[x.Name] = x
		at := devicesOf(&x)
		device := at[strings.LastIndex(at, "/")+1:]
		if device == "" || taken[device] != "" {
			t.Errorf("claim %s has the device %q, which %q has", x.Name, device, taken[device])
		}
		taken[device] = x.Name
	}
	if len(claims) != 2*len(keys) {
		t.Errorf("got %d claims, want two for each of %d pods", len(claims), len(keys))
	}
	for _, key := range keys {
		p := c.Pods.Get(key)
		if p.Status.ExtendedResourceClaimStatus == nil {
			t.Errorf("pod %s is bound without a claim for its extended resource", key)
			continue
		}
		for _, name := range []string{p.Name, p.Status.ExtendedResourceClaimStatus.ResourceClaimName} {
			isFor := func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == p.UID }
			if x := claims[name]; len(x.Status.ReservedFor) != 1 || !slices.ContainsFunc(x.Status.ReservedFor, isFor) {
				t.Errorf("pod %s: claim %s is reserved for %v, want the pod alone", key, name, x.Status.ReservedFor)
			}
		}
	}
}

func allocatedClaims(ctx context.Context, t *testing.T, c *testbed.Cluster) (names []string) {
	t.Helper()
	list, err := c.Admin.ResourceV1().ResourceClaims("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range list.Items {
		if x.Status.Allocation != nil {
			names = append(names, x.Name)
		}
	}
	return names
}
