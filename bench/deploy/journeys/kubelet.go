package journeys

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/bench/internal/process"
)

// kubelet starts the processes that pods' containers would have. Of what a container gives a process there are the arguments, with
// variables and files as the pod says; a folder of the pod is a folder below dir, and paths in arguments are changed to it. A
// pod has an address of loopback of its own: what listens everywhere listens there.
type kubelet struct {
	bed *testbed.Bed
	// programs are files by the first part of an image's name.
	programs map[string]string
	dir      string
	// objects that pods mount and read, by kind and name.
	configs map[string]map[string]string
	secrets map[string]map[string][]byte
	pods    int

	mu      sync.Mutex
	running []*pod // that names are looked up among
}

// pod is one that runs.
type pod struct {
	*process.Process
	spec *v1.Pod
	ip   string
}

// program is what an image runs, and how its command line begins.
func (k *kubelet) program(c *v1.Container) (file string, args []string, err error) {
	args = append(slices.Clone(c.Command), c.Args...)
	name := strings.Split(path.Base(c.Image), ":")[0]
	if file = k.programs[name]; file == "" {
		return "", nil, fmt.Errorf("image %s: want one of %v", c.Image, k.programs)
	}
	if len(c.Command) > 0 {
		args = args[1:] // the program's name; ours is the image's entrypoint
	}
	return file, args, nil
}

// start runs a pod whose node's files are below root. A pod of the host's network has the address ip.
func (k *kubelet) start(p *v1.Pod, root, ip string) (*pod, error) {
	k.pods++
	if !p.Spec.HostNetwork {
		ip = fmt.Sprintf("127.%d.%d.%d", 1+os.Getpid()>>8%250, os.Getpid()%250, 100+k.pods)
	}
	c := &p.Spec.Containers[0]
	file, args, err := k.program(c)
	if err != nil {
		return nil, err
	}
	folders, err := k.volumes(p, root)
	if err != nil {
		return nil, err
	}
	variables := map[string]string{}
	for _, from := range c.EnvFrom {
		for name, value := range k.configs[from.ConfigMapRef.Name] {
			variables[name] = value
		}
	}
	for _, e := range c.Env {
		variables[e.Name] = e.Value
		if e.ValueFrom != nil {
			variables[e.Name] = map[string]string{"metadata.name": p.Name, "metadata.namespace": p.Namespace,
				"metadata.uid": fmt.Sprintf("uid-%d", k.pods)}[e.ValueFrom.FieldRef.FieldPath]
		}
	}
	run := []string{}
	for name, value := range variables {
		run = append(run, name+"="+value)
	}
	run = append(run, file)
	for _, arg := range args {
		run = append(run, within(arg, variables, folders, ip))
	}
	if socket, ok := folders["/run/shardsched"]; ok { // its default is a path of the container
		run = append(run, "--listen=unix://"+socket+"/client.sock")
	}
	made, err := k.bed.Run(fmt.Sprintf("%s-%d", p.Name, k.pods), "env", run...)
	return &pod{made, p, ip}, err
}

var (
	variable   = regexp.MustCompile(`\$\(([A-Z_]+)\)`)
	everywhere = regexp.MustCompile(`^(--[a-z-]+=)(0\.0\.0\.0)?(:\d+)?$`)
)

// within is an argument as the process gets it.
func within(arg string, variables, folders map[string]string, ip string) string {
	arg = variable.ReplaceAllStringFunc(arg, func(v string) string { return variables[v[2:len(v)-1]] })
	if m := everywhere.FindStringSubmatch(arg); m != nil && m[2]+m[3] != "" {
		return m[1] + ip + m[3]
	}
	if flag, address, _ := strings.Cut(arg, "="); flag == "--bind-address" && address == "127.0.0.1" {
		return flag + "=" + ip // several nodes are on this machine
	}
	for at, folder := range folders {
		if before, value, ok := strings.Cut(arg, "="); ok && (value == at || strings.HasPrefix(value, at+"/")) {
			return before + "=" + folder + strings.TrimPrefix(value, at)
		}
	}
	return arg
}

// volumes makes what the container mounts, and returns where each is.
func (k *kubelet) volumes(p *v1.Pod, root string) (map[string]string, error) {
	at := map[string]string{}
	for _, m := range p.Spec.Containers[0].VolumeMounts {
		i := slices.IndexFunc(p.Spec.Volumes, func(v v1.Volume) bool { return v.Name == m.Name })
		if i < 0 {
			return nil, fmt.Errorf("pod %s: mount %s: want a volume", p.Name, m.Name)
		}
		v := p.Spec.Volumes[i]
		folder := filepath.Join(k.dir, fmt.Sprintf("%s-%d", p.Name, k.pods), v.Name)
		files := map[string][]byte{}
		switch {
		case v.HostPath != nil:
			at[m.MountPath] = filepath.Join(root, v.HostPath.Path)
			if _, err := os.Stat(at[m.MountPath]); err != nil {
				return nil, err
			}
			continue
		case v.ConfigMap != nil:
			for name, text := range k.configs[v.ConfigMap.Name] {
				files[name] = []byte(text)
			}
		case v.Secret != nil:
			files = k.secrets[v.Secret.SecretName]
		case v.EmptyDir == nil:
			return nil, fmt.Errorf("pod %s: volume %s: want a hostPath, a ConfigMap, a Secret or an emptyDir", p.Name, v.Name)
		}
		if v.EmptyDir == nil && len(files) == 0 {
			return nil, fmt.Errorf("pod %s: volume %s: want an object with files", p.Name, v.Name)
		}
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, err
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
				return nil, err
			}
		}
		at[m.MountPath] = folder
	}
	return at, nil
}

// ready waits until a probe of the pod is answered as the kubelet wants it.
func (p *pod) ready(ctx context.Context, probe *v1.Probe) error {
	c := p.spec.Spec.Containers[0]
	port := probe.HTTPGet.Port.IntValue()
	for _, of := range c.Ports {
		if of.Name == probe.HTTPGet.Port.StrVal {
			port = int(of.ContainerPort)
		}
	}
	trusting := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true} // as kubelets are
	ask := &http.Client{Timeout: 10 * time.Second, Transport: trusting}
	url := fmt.Sprintf("%s://%s:%d%s", strings.ToLower(string(probe.HTTPGet.Scheme)), p.ip, port, probe.HTTPGet.Path)
	if probe.HTTPGet.Scheme == "" {
		url = "http" + url
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last string
	for {
		answer, err := ask.Get(url)
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
			last = answer.Status
		} else {
			last = err.Error()
		}
		select {
		case <-tick.C:
		case <-p.Done():
			return fmt.Errorf("%s ended: %w", p.Name, p.Err())
		case <-ctx.Done():
			return fmt.Errorf("%s: %s: %s: %w", p.Name, url, last, ctx.Err())
		}
	}
}

// dns stands in for the cluster's: an HTTP proxy that gRPC asks for connections to names, which it looks up among pods.
func (k *kubelet) dns(t interface{ Cleanup(func()) }, lookup func(name string) (ip string, ok bool)) (proxy string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, port, err := net.SplitHostPort(r.Host)
		ip, ok := lookup(name)
		if r.Method != http.MethodConnect || err != nil || !ok {
			http.Error(w, "no such name: "+r.Host, http.StatusBadGateway)
			return
		}
		into, err := net.Dial("tcp", net.JoinHostPort(ip, port))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer into.Close()
		from, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer from.Close()
		fmt.Fprint(from, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { io.Copy(into, buffered); into.(*net.TCPConn).CloseWrite() }()
		io.Copy(from, into)
	})}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return "http://" + l.Addr().String(), nil
}
