package cli

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/shardsched/shardsched/cmd/internal/staticpod"
)

const (
	kubeadmPod = "../../../deploy/static-pod/testdata/kubeadm.yaml"
	ourPod     = "../../../deploy/static-pod/kube-scheduler.yaml"
	podImage   = "registry.example.com/shardsched:v1"
)

// TestTheStaticPodIsMadeFromKubeadms holds the committed manifest to what the command makes of kubeadm's:
//
//	go run ./cmd/shardsched generate static-pod --from deploy/static-pod/testdata/kubeadm.yaml \
//	  --image registry.example.com/shardsched:v1 --file deploy/static-pod/kube-scheduler.yaml
func TestTheStaticPodIsMadeFromKubeadms(t *testing.T) {
	var out, errs bytes.Buffer
	s := Streams{In: strings.NewReader(""), Out: &out, Err: &errs, Env: func(string) string { return "" }}
	if code := Main(t.Context(), []string{"generate", "static-pod", "--from", kubeadmPod, "--image", podImage}, s, Runs{}); code != 0 {
		t.Fatal(errs.String())
	}
	committed, err := os.ReadFile(ourPod)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(committed) {
		t.Errorf("deploy/static-pod/kube-scheduler.yaml is not what the command makes:\n%s", out.String())
	}
	if want := "chgrp 60745 /etc/kubernetes/scheduler.conf && chmod g+r /etc/kubernetes/scheduler.conf\n"; !strings.HasSuffix(errs.String(), want) {
		t.Errorf("got %q, want it to end with %q", errs.String(), want)
	}
}

func kubeadms(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(kubeadmPod)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// makePod makes it from kubeadm's, with some of its text replaced, on a node with these files.
func makePod(t *testing.T, host fstest.MapFS, user, group int64, replace ...string) (*staticpod.Result, *v1.Pod, error) {
	t.Helper()
	text := kubeadms(t)
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			t.Fatalf("the manifest has no %q", replace[i])
		}
		text = strings.ReplaceAll(text, replace[i], replace[i+1])
	}
	o := generateOptions(nil)
	o.From, o.Image, o.User, o.Group, o.Host = "in.yaml", podImage, user, group, nil
	if host != nil {
		o.Host = host
	}
	made, err := staticpod.Generate([]byte(text), o)
	if err != nil {
		return nil, nil, err
	}
	var pod v1.Pod
	if err := yaml.UnmarshalStrict(made.Manifest, &pod); err != nil {
		t.Fatal(err)
	}
	return made, &pod, nil
}

// TestTheStaticPodKeepsWhatWasThere gives kube-scheduler's pod a configuration, a certificate and a folder.
func TestTheStaticPodKeepsWhatWasThere(t *testing.T) {
	host := fstest.MapFS{
		"etc/sched/sched.yaml": {Mode: 0o644, Data: []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" +
			"clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf}\n")},
		"etc/kubernetes/scheduler.conf": {Mode: 0o600, Data: []byte("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n" +
			"clusters: [{name: k, cluster: {server: 'https://x'}}]\nusers: [{name: u, user: {client-certificate: /var/pki/u.crt, client-key: u.key}}]\n")},
	}
	made, pod, err := makePod(t, host, 900, 901,
		"    - --leader-elect=true\n", "    - --leader-elect=true\n    - --config=/config/sched.yaml\n    - --v=3\n    - --feature-gates=ContextualLogging=false\n",
		"    volumeMounts:\n", "    volumeMounts:\n    - {mountPath: /config, name: conf}\n    - {mountPath: /var/pki, name: pki}\n    - {mountPath: /etc/kubernetes/u.key, name: key}\n    - {mountPath: /etc/localtime, name: zone}\n    - {mountPath: /etc/ssl/certs, name: certs}\n",
		"  volumes:\n", "  volumes:\n  - {name: conf, hostPath: {path: /etc/sched, type: DirectoryOrCreate}}\n  - {name: pki, hostPath: {path: /var/lib/pki}}\n  - {name: key, hostPath: {path: /root/u.key, type: File}}\n  - {name: zone, hostPath: {path: /etc/localtime, type: File}}\n  - {name: certs, hostPath: {path: /etc/ssl/certs}}\n")
	if err != nil {
		t.Fatal(err)
	}
	c := pod.Spec.Containers[0]
	wantArgs := []string{"coordinator", "--authentication-kubeconfig=/etc/kubernetes/scheduler.conf", "--authorization-kubeconfig=/etc/kubernetes/scheduler.conf",
		"--bind-address=127.0.0.1", "--kubeconfig=/etc/kubernetes/scheduler.conf", "--leader-elect=true", "--config=/config/sched.yaml", "--v=3",
		"--feature-gates=ContextualLogging=false", "--embedded-etcd", "--data-dir=/var/lib/shardsched"}
	if !slices.Equal(c.Args, wantArgs) || c.Image != podImage || len(c.Command) > 0 {
		t.Errorf("got %s %q %q, want %q", c.Image, c.Command, c.Args, wantArgs)
	}
	var seen []string
	for i, m := range c.VolumeMounts {
		v := pod.Spec.Volumes[i]
		if v.Name != m.Name {
			t.Fatalf("volume %s, mount %s", v.Name, m.Name)
		}
		if v.HostPath == nil {
			seen = append(seen, m.MountPath)
			continue
		}
		if !m.ReadOnly {
			t.Errorf("%s: want it to be read only", m.MountPath)
		}
		seen = append(seen, m.MountPath+" "+v.HostPath.Path+" "+string(*v.HostPath.Type))
	}
	want := []string{
		"/config/sched.yaml /etc/sched/sched.yaml File",
		"/etc/kubernetes/scheduler.conf /etc/kubernetes/scheduler.conf FileOrCreate",
		"/var/pki/u.crt /var/lib/pki/u.crt File",
		"/etc/kubernetes/u.key /root/u.key File",
		"/etc/localtime /etc/localtime File",
		"/var/lib/shardsched", "/run/shardsched",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("sees\n%s\nwant\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
	}
	if want := []string{"the folder /etc/ssl/certs is left out: of it the pod sees the files that flags name"}; !slices.Equal(made.Notes, want) {
		t.Errorf("notes: got %q, want %q", made.Notes, want)
	}
	files := "/etc/kubernetes/scheduler.conf /var/lib/pki/u.crt /root/u.key /etc/localtime"
	if want := []string{"chgrp 901 " + files + " && chmod g+r " + files}; !slices.Equal(made.Commands, want) {
		t.Errorf("commands: got %q, want %q", made.Commands, want)
	}
	if s := pod.Spec.SecurityContext; *s.RunAsUser != 900 || *s.RunAsGroup != 901 || !*s.RunAsNonRoot {
		t.Errorf("user: got %v", s)
	}
	was := &v1.Pod{}
	if err := yaml.Unmarshal([]byte(kubeadms(t)), was); err != nil {
		t.Fatal(err)
	}
	before := was.Spec.Containers[0]
	if !equalYAML(t, before.LivenessProbe, c.LivenessProbe) || !equalYAML(t, before.ReadinessProbe, c.ReadinessProbe) ||
		!equalYAML(t, before.StartupProbe, c.StartupProbe) || !equalYAML(t, before.Ports, c.Ports) || !equalYAML(t, was.ObjectMeta, pod.ObjectMeta) {
		t.Error("want probes, ports and metadata kept")
	}
}

func equalYAML(t *testing.T, a, b any) bool {
	t.Helper()
	x, err := yaml.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := yaml.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Equal(x, y)
}

// TestTheUserOfTheManifestStays is kubeadm's with a user of its own, whose the files are.
func TestTheUserOfTheManifestStays(t *testing.T) {
	made, pod, err := makePod(t, nil, 0, 0, "  securityContext:\n", "  securityContext:\n    runAsUser: 997\n    runAsGroup: 996\n    supplementalGroups: [995]\n")
	if err != nil {
		t.Fatal(err)
	}
	if s := pod.Spec.SecurityContext; *s.RunAsUser != 997 || *s.RunAsGroup != 996 || !slices.Equal(s.SupplementalGroups, []int64{995}) {
		t.Errorf("got %v", s)
	}
	if len(made.Commands) > 0 {
		t.Errorf("want no command, got %q", made.Commands)
	}
	if made, pod, err = makePod(t, nil, 0, 0, "  securityContext:\n", "  securityContext:\n    runAsUser: 0\n"); err != nil || *pod.Spec.SecurityContext.RunAsUser != staticpod.DefaultUser || len(made.Commands) != 1 {
		t.Errorf("root: got %v, %v", made, err)
	}
}

// TestTheStaticPodOpensNoDoor has a file's name do as little as may be in a shell, and the pod see no other's processes.
func TestTheStaticPodOpensNoDoor(t *testing.T) {
	made, pod, err := makePod(t, nil, 0, 0, "      path: /etc/kubernetes/scheduler.conf", `      path: "/etc/a b; it's $(x)"`,
		"  hostNetwork", "  hostPID: true\n  hostIPC: true\n  hostNetwork")
	if err != nil {
		t.Fatal(err)
	}
	file := `'/etc/a b; it'\''s $(x)'`
	if want := "chgrp 60745 " + file + " && chmod g+r " + file; !slices.Equal(made.Commands, []string{want}) {
		t.Errorf("got %q, want %q", made.Commands, want)
	}
	if pod.Spec.HostPID || pod.Spec.HostIPC || !pod.Spec.HostNetwork {
		t.Errorf("want the node's network alone, got %+v", pod.Spec)
	}
}

func TestWhatAStaticPodCanNotKeepIsRefused(t *testing.T) {
	flag := func(f string) []string { return []string{"--leader-elect=true", f} }
	for name, c := range map[string]struct {
		want    string
		host    fstest.MapFS
		replace []string
	}{
		"an unknown flag":     {"in.yaml: spec.containers[0].command: unknown flag: --shiny", nil, flag("--shiny=1")},
		"a flag of ours":      {"--standalone: kube-scheduler has no such flag", nil, flag("--standalone")},
		"a refused gate":      {"--feature-gates=DRADeviceTaints=false: it would change decisions, and can't be honoured", nil, flag("--feature-gates=DRADeviceTaints=false")},
		"a wrong value":       {`invalid argument "x" for "--kube-api-burst"`, nil, flag("--kube-api-burst=x")},
		"help":                {"want flags to schedule by", nil, flag("--help")},
		"a folder to write":   {"--cert-dir: a certificate would be written there", nil, flag("--cert-dir=/tmp")},
		"a file that is not":  {"--config=/etc/c.yaml: want it in a volumeMount, got none that has it", nil, flag("--config=/etc/c.yaml")},
		"a relative file":     {`--config: want an absolute path, got "c.yaml"`, nil, flag("--config=c.yaml")},
		"a shell":             {`want kube-scheduler and its flags, as kubeadm writes them, got ["/bin/sh"`, nil, []string{"- kube-scheduler\n", "- /bin/sh\n"}},
		"ours already":        {"want kube-scheduler and its flags", nil, []string{"- kube-scheduler\n", "- coordinator\n"}},
		"an unknown field":    {`in.yaml: want one v1 Pod: error unmarshaling JSON: while decoding JSON: json: unknown field "hostNet"`, nil, []string{"hostNetwork", "hostNet"}},
		"another kind":        {`want a v1 Pod, got "v1" "Node"`, nil, []string{"kind: Pod", "kind: Node"}},
		"a second container":  {"want one container, kube-scheduler's", nil, []string{"  hostNetwork", "  - name: sidecar\n  hostNetwork"}},
		"a mount of nothing":  {"kubeconfig: want a volume of this name, got none", nil, []string{"    name: kubeconfig\nstatus", "    name: other\nstatus"}},
		"a configMap":         {"want it in a hostPath", nil, []string{"hostPath:\n      path: /etc/kubernetes/scheduler.conf\n      type: FileOrCreate", "configMap: {name: c}"}},
		"two documents":       {"want one v1 Pod: got several documents", nil, []string{"status: {}", "---\napiVersion: v1\nkind: Pod\n"}},
		"a mirror pod":        {"got a pod of the API server", nil, []string{"  namespace: kube-system\n", "  namespace: kube-system\n  annotations: {kubernetes.io/config.mirror: x}\n"}},
		"a pod with a uid":    {"got a pod of the API server", nil, []string{"  namespace: kube-system\n", "  namespace: kube-system\n  uid: x\n"}},
		"no namespace":        {`want a name and a namespace, got "kube-scheduler" and ""`, nil, []string{"  namespace: kube-system\n", ""}},
		"a secret":            {"env[1]: B: want no Secret", nil, []string{"    name: kube-scheduler\n    ports", "    name: kube-scheduler\n    env: [{name: A, value: a}, {name: B, valueFrom: {secretKeyRef: {name: s, key: k}}}]\n    ports"}},
		"all of a ConfigMap":  {"envFrom: want no Secret", nil, []string{"    name: kube-scheduler\n    ports", "    name: kube-scheduler\n    envFrom: [{configMapRef: {name: s}}]\n    ports"}},
		"a probe's program":   {"want probes by httpGet", nil, []string{"    readinessProbe:\n", "    readinessProbe:\n      exec: {command: [sh]}\n"}},
		"a hook's program":    {"lifecycle: want no exec", nil, []string{"    name: kube-scheduler\n    ports", "    name: kube-scheduler\n    lifecycle: {preStop: {exec: {command: [sleep]}}}\n    ports"}},
		"a debugger":          {"neither ephemeralContainers nor", nil, []string{"  hostNetwork", "  ephemeralContainers: [{name: e}]\n  hostNetwork"}},
		"a relative hostPath": {`volumes[0].hostPath.path: want an absolute path, without .. or control characters, got "etc/x"`, nil, []string{"      path: /etc/kubernetes/scheduler.conf", "      path: etc/x"}},
		"a way up":            {`got "/etc/../x"`, nil, []string{"      path: /etc/kubernetes/scheduler.conf", "      path: /etc/../x"}},
		"two lines":           {`got "/etc/x\nkind: y"`, nil, []string{"      path: /etc/kubernetes/scheduler.conf", `      path: "/etc/x\nkind: y"`}},
		"a mount of ours":     {"volumeMounts[0].mountPath: /run/shardsched/: want another", nil, []string{"    - mountPath: /etc", "    - {mountPath: /run/shardsched/, name: kubeconfig}\n    - mountPath: /etc"}},
		"a program for users": {"the image has no program to run", fstest.MapFS{"etc/kubernetes/scheduler.conf": {Data: []byte("current-context: c\ncontexts: [{name: c, context: {user: u}}]\nusers: [{name: u, user: {exec: {command: aws, apiVersion: client.authentication.k8s.io/v1}}}]")}}, nil},
		"no context":          {`current-context: want one of its contexts, got "c"`, fstest.MapFS{"etc/kubernetes/scheduler.conf": {Data: []byte("current-context: c")}}, nil},
	} {
		if _, _, err := makePod(t, c.host, 0, 0, c.replace...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	var errs bytes.Buffer
	for args, want := range map[string]string{
		"":                                       "name what to make",
		"static-pod --from x":                    "--from and --image are required",
		"static-pod --from - --image x --user 0": `--user: "0" is not UID or UID:GID`,
		"static-pod --from - --image x --user 5:a":   `--user: "5:a" is not UID or UID:GID`,
		"static-pod --from - --image x --user -1:5":  `is not UID or UID:GID`,
		"static-pod --from - --image x --user 1:2:3": `is not UID or UID:GID`,
	} {
		errs.Reset()
		s := Streams{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &errs, Env: func(string) string { return "" }}
		if code := Main(t.Context(), append([]string{"generate"}, strings.Fields(args)...), s, Runs{}); code != 2 || !strings.Contains(errs.String(), want) {
			t.Errorf("generate %s: got exit code %d: %s; want %q", args, code, errs.String(), want)
		}
	}
}

// FuzzStaticPod: whatever the manifest says, an answer is a Pod of files and a user other than root.
func FuzzStaticPod(f *testing.F) {
	f.Add(kubeadms(f))
	f.Add("apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: b}\nspec: {containers: [{command: [kube-scheduler], volumeMounts: [{name: a, mountPath: /}]}], volumes: [{name: a, hostPath: {path: /}}]}")
	f.Fuzz(func(t *testing.T, text string) {
		o := generateOptions(nil)
		o.From, o.Image, o.Host = "in.yaml", podImage, nil
		made, err := staticpod.Generate([]byte(text), o)
		if err != nil {
			return
		}
		var pod v1.Pod
		if err := yaml.UnmarshalStrict(made.Manifest, &pod); err != nil {
			t.Fatal(err)
		}
		if s := pod.Spec.SecurityContext; *s.RunAsUser == 0 || !*s.RunAsNonRoot {
			t.Errorf("runs as root: %s", made.Manifest)
		}
		for _, v := range pod.Spec.Volumes {
			if h := v.HostPath; h != nil && (h.Type == nil || *h.Type != v1.HostPathFile && *h.Type != v1.HostPathFileOrCreate) {
				t.Errorf("mounts the folder %s: %s", h.Path, made.Manifest)
			}
		}
	})
}
