package journeys

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/shardsched/shardsched/bench/deploy/chart"
	"github.com/shardsched/shardsched/bench/internal/process"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// prepare makes what an administrator has before a chart is installed: certificates, an etcd and a namespace; and names are looked up.
func (j *journey) prepare() {
	t := j.T.(*testing.T)
	proxy, err := j.dns(t, j.lookup)
	must(t, err)
	t.Setenv("HTTPS_PROXY", proxy) // of the processes
	_, err = j.Admin.CoreV1().Namespaces().Create(j.Context(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: chart.Helm.Namespace}}, metav1.CreateOptions{})
	must(t, err)
	ofEtcd := filepath.Join(j.dir, "pki-etcd")
	j.roles = filepath.Join(j.dir, "pki")
	j.run("certs", "create", "--dir", j.roles, "--domain", "example.org")
	j.run("certs", "create-etcd", "--dir", ofEtcd, "--hosts", "127.0.0.1")
	j.takeSecrets(j.run("certs", "show", "--dir", j.roles, "-o", "yaml"))
	j.takeSecrets(j.run("certs", "show", "--dir", ofEtcd, "-o", "yaml"))
	j.etcd = fmt.Sprintf("etcd: {endpoints: [%q]}\n", etcdWith(t, ofEtcd))
}

// as is a client's command line with the certificate of a role.
func (j *journey) as(role string, command ...string) []string {
	f := filepath.Join(j.roles, role)
	return append(command, "--address", "shardsched.shardsched.svc:7450", "--tls-ca-file", f+"/ca.crt", "--tls-cert-file", f+"/tls.crt",
		"--tls-private-key-file", f+"/tls.key")
}

func (j *journey) swap() {
	j.install("swap", j.config())
	j.Create(build.Pod("swap").CPU("10m").Obj())
	j.Bound("default/swap")
}

func (j *journey) sharded() {
	j.install("sharded", j.config()+j.etcd+"worker: {replicas: 2}\n")
	var out string
	for i := range 200 { // pods of classes of their own, until both workers were asked
		name := fmt.Sprintf("sharded-%d", i)
		j.Create(build.Pod(name).CPU(fmt.Sprintf("%dm", 10+i)).Obj())
		j.Bound("default/" + name)
		out = j.run(j.as("reader", "get", "workers", "--no-headers")...)
		asked := 0
		for line := range strings.Lines(out) {
			const requests = 4 // column
			if columns := strings.Fields(line); strings.HasPrefix(line, "shardsched-worker-") && len(columns) > requests && columns[requests] != "0" {
				asked++
			}
		}
		if asked == 2 {
			return
		}
	}
	j.T.Errorf("want two workers that are asked, got\n%s", out)
}

func (j *journey) standalone() {
	j.install("standalone", j.etcd+"worker: {replicas: 2}\n")
	objects := filepath.Join(j.T.TempDir(), "objects.yaml")
	text := "apiVersion: v1\nkind: Node\nmetadata: {name: node}\nstatus: {allocatable: {cpu: 8, memory: 8Gi, pods: 110}, conditions: [{type: Ready, status: 'True'}]}\n" +
		"---\napiVersion: v1\nkind: Pod\nmetadata: {name: alone, namespace: default}\nspec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}\n"
	must(j.T, os.WriteFile(objects, []byte(text), 0o600))
	j.run(j.as("writer", "apply", "-f", objects)...)
	for node := ""; node != "node"; {
		var p v1.Pod
		out := j.run(j.as("reader", "get", "pod", "alone", "-o", "json")...)
		must(j.T, yaml.Unmarshal([]byte(out), &p))
		node = p.Spec.NodeName
	}
}

// lookup finds a pod by its own name below its Service, and by a Service's name one that is there.
func (j *journey) lookup(name string) (ip string, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, p := range j.running {
		own := p.spec.Name + "." + p.spec.Spec.Subdomain + "." + p.spec.Namespace + ".svc"
		if name == own || name == "shardsched.shardsched.svc" && strings.Contains(p.spec.Name, "coordinator") {
			return p.ip, true
		}
	}
	return "", false
}

// config is the value of a configuration that reaches the API server as the chart's account, by a token: processes outside of pods
// have no folder of it.
func (j *journey) config() string {
	j.T.Helper()
	return "config: |\n  apiVersion: kubescheduler.config.k8s.io/v1\n  kind: KubeSchedulerConfiguration\n  clientConnection: {qps: 5000, burst: 10000, kubeconfig: " +
		j.kubeconfig() + "}\n"
}

func (j *journey) kubeconfig() string { return filepath.Join(j.dir, "account.conf") }

// writeKubeconfig makes a token of the chart's account.
func (j *journey) writeKubeconfig() {
	j.T.Helper()
	token, err := j.Admin.CoreV1().ServiceAccounts(chart.Helm.Namespace).CreateToken(j.Context(), chart.Helm.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		j.T.Fatal(err)
	}
	c := clientapi.NewConfig()
	c.Clusters["k"] = &clientapi.Cluster{Server: j.AdminREST.Host, CertificateAuthorityData: j.AdminREST.CAData}
	c.AuthInfos["u"] = &clientapi.AuthInfo{Token: token.Status.Token}
	c.Contexts["c"] = &clientapi.Context{Cluster: "k", AuthInfo: "u"}
	c.CurrentContext = "c"
	if err := clientcmd.WriteToFile(*c, j.kubeconfig()); err != nil {
		j.T.Fatal(err)
	}
}

// install renders a topology, applies what came of it, and starts its pods.
func (j *journey) install(topology, values string) {
	t := j.T
	t.Helper()
	example, err := os.ReadFile("../../../deploy/chart/examples/" + topology + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	c, err := chart.Load("../../../deploy/chart")
	if err != nil {
		t.Fatal(err)
	}
	all, err := chart.Values(example, []byte(values))
	if err != nil {
		t.Fatal(err)
	}
	texts, _, err := c.Render(chart.Helm, all)
	if err != nil {
		t.Fatal(err)
	}
	var pods []*v1.Pod
	for _, d := range chart.Documents(texts) {
		pods = append(pods, j.apply(d.Text)...)
	}
	if topology != "standalone" {
		j.writeKubeconfig()
	}
	slices.SortFunc(pods, func(a, b *v1.Pod) int { return strings.Compare(a.Name, b.Name) })
	for _, p := range pods {
		run, err := j.start(p, "", "")
		if err != nil {
			t.Fatal(err)
		}
		j.mu.Lock()
		j.running = append(j.running, run)
		j.mu.Unlock()
		t.Cleanup(func() {
			j.mu.Lock()
			j.running = slices.DeleteFunc(j.running, func(of *pod) bool { return of == run })
			j.mu.Unlock()
			run.Terminate()
			<-run.Done()
		})
	}
	for _, p := range j.running {
		if err := p.ready(j.Context(), p.spec.Spec.Containers[0].ReadinessProbe); err != nil {
			t.Fatal(err)
		}
	}
}

// apply sends an object to the API server. It returns the pods that its controller would make.
func (j *journey) apply(text string) (pods []*v1.Pod) {
	t := j.T
	t.Helper()
	var object unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	groups, err := restmapper.GetAPIGroupResources(j.Admin.Discovery())
	if err != nil {
		t.Fatal(err)
	}
	kind := object.GroupVersionKind()
	mapping, err := restmapper.NewDiscoveryRESTMapper(groups).RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(j.AdminREST)
	if err != nil {
		t.Fatal(err)
	}
	var of dynamic.ResourceInterface = client.Resource(mapping.Resource)
	if object.GetNamespace() != "" {
		of = client.Resource(mapping.Resource).Namespace(object.GetNamespace())
	}
	if _, err := of.Apply(j.Context(), object.GetName(), &object, metav1.ApplyOptions{FieldManager: "journeys", Force: true}); err != nil {
		t.Fatalf("apply %s %s: %v", kind.Kind, object.GetName(), err)
	}
	switch kind.Kind {
	case "ConfigMap":
		var c v1.ConfigMap
		must(t, yaml.UnmarshalStrict([]byte(text), &c))
		j.configs[c.Name] = c.Data
	case "Deployment":
		var d appsv1.Deployment
		must(t, yaml.UnmarshalStrict([]byte(text), &d))
		return podsOf(d.ObjectMeta, *d.Spec.Replicas, d.Spec.Template, "")
	case "StatefulSet":
		var s appsv1.StatefulSet
		must(t, yaml.UnmarshalStrict([]byte(text), &s))
		return podsOf(s.ObjectMeta, *s.Spec.Replicas, s.Spec.Template, s.Spec.ServiceName)
	}
	return nil
}

func podsOf(of metav1.ObjectMeta, replicas int32, template v1.PodTemplateSpec, service string) (pods []*v1.Pod) {
	for i := range replicas {
		p := &v1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		p.Name, p.Namespace, p.Spec.Subdomain = fmt.Sprintf("%s-%d", of.Name, i), of.Namespace, service
		pods = append(pods, p)
	}
	return pods
}

// takeSecrets reads Secrets as kubectl would.
func (j *journey) takeSecrets(text string) {
	j.T.Helper()
	for doc := range bytes.SplitSeq([]byte(text), []byte("---\n")) {
		var s v1.Secret
		must(j.T, yaml.UnmarshalStrict(doc, &s))
		j.secrets[s.Name] = s.Data
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// etcdWith runs an etcd of one member with the certificates of a folder.
func etcdWith(t *testing.T, pki string) (endpoint string) {
	t.Helper()
	c := embed.NewConfig()
	c.Dir, c.LogLevel, c.UnsafeNoFsync = t.TempDir(), "fatal", true
	clients, peers := url.URL{Scheme: "https", Host: process.MustFreeAddress(t)}, url.URL{Scheme: "http", Host: process.MustFreeAddress(t)}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{clients}, []url.URL{clients}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peers}, []url.URL{peers}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.ClientTLSInfo = transport.TLSInfo{CertFile: pki + "/etcd/tls.crt", KeyFile: pki + "/etcd/tls.key", TrustedCAFile: pki + "/ca.crt", ClientCertAuth: true}
	server, err := embed.StartEtcd(c)
	must(t, err)
	t.Cleanup(server.Close)
	select {
	case <-server.Server.ReadyNotify():
	case <-t.Context().Done():
	}
	return clients.String()
}
