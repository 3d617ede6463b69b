package staticpod

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const (
	upstream = "kube-scheduler"
	// dataDir is the etcd's, runDir the client API's socket's.
	dataDir = "/var/lib/shardsched"
	runDir  = "/run/shardsched"
)

// DefaultUser is a user and a group that nothing else is: systemd leaves 60706 to 61183 alone, distributions too, and images' own users
// are below or above.
const DefaultUser = 60745

// Options are what the manifest does not say.
type Options struct {
	// From names the manifest in errors.
	From  string
	Image string
	// User and Group are those of the process; 0: the manifest's where it has some other than root's, DefaultUser otherwise.
	User, Group int64
	// Parse reads a coordinator's arguments: those that were kube-scheduler's, and ours behind them. It tells which files they name, in the
	// flags' order.
	Parse func(theirs, ours []string) ([]File, error)
	// Configuration reads a file of --config, and tells which files it names.
	Configuration func(name string, text []byte) ([]File, error)
	// Host is the node's root, where the manifest's files may be looked at; nil: they may not.
	Host fs.FS
}

// File is a file that a flag or a field names.
type File struct{ Of, Path string }

// Result is the manifest, with what the operator has to know and to do.
type Result struct {
	Manifest []byte
	Notes    []string
	// Commands make the files readable for the user, on each node.
	Commands []string
}

// Generate makes the manifest of a coordinator from that of kube-scheduler.
func Generate(text []byte, o Options) (*Result, error) {
	if err := one(text); err != nil {
		return nil, fmt.Errorf("%s: want one v1 Pod: %w", o.From, err)
	}
	var pod v1.Pod
	if err := yaml.UnmarshalStrict(text, &pod); err != nil {
		return nil, fmt.Errorf("%s: want one v1 Pod: %w", o.From, err)
	}
	g := &generator{Options: o, pod: &pod}
	if err := g.run(); err != nil {
		return nil, fmt.Errorf("%s: %w", o.From, err)
	}
	manifest, err := g.write()
	return &Result{manifest, g.notes, g.commands}, err
}

// one refuses more documents than one: all but the first would be left out.
func one(text []byte) error {
	d := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for n := 0; ; {
		document, err := d.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var value any
		if err := yaml.Unmarshal(document, &value); err != nil {
			return err
		}
		if value != nil {
			n++
		}
		if n > 1 {
			return errors.New("got several documents")
		}
	}
}

type generator struct {
	Options
	pod       *v1.Pod
	container *v1.Container
	args      []string // kube-scheduler's
	files     []File   // absolute, each path once
	volumes   []v1.Volume
	mounts    []v1.VolumeMount
	notes     []string
	commands  []string
}

func (g *generator) run() error {
	if g.pod.APIVersion != "v1" || g.pod.Kind != "Pod" {
		return fmt.Errorf("want a v1 Pod, got %q %q", g.pod.APIVersion, g.pod.Kind)
	}
	if n := len(g.pod.Spec.Containers); n != 1 || len(g.pod.Spec.InitContainers) > 0 {
		return fmt.Errorf("spec: want one container, kube-scheduler's, and none to start with, got %d and %d", n, len(g.pod.Spec.InitContainers))
	}
	g.container = &g.pod.Spec.Containers[0]
	if err := g.checkPod(); err != nil {
		return err
	}
	for _, step := range []func() error{g.readArgs, g.readFiles, g.mount, g.changeContainer} {
		if err := step(); err != nil {
			return err
		}
	}
	g.changePod()
	return nil
}

// checkPod refuses what a kubelet would not run, or not with another image.
func (g *generator) checkPod() error {
	c := g.container
	if _, mirrored := g.pod.Annotations[v1.MirrorPodAnnotationKey]; mirrored || g.pod.UID != "" {
		return fmt.Errorf("metadata: want the file of the node, from which the kubelet makes the pod, got a pod of the API server")
	}
	if g.pod.Name == "" || g.pod.Namespace == "" {
		return fmt.Errorf("metadata: want a name and a namespace, got %q and %q", g.pod.Name, g.pod.Namespace)
	}
	if len(g.pod.Spec.EphemeralContainers) > 0 || len(c.VolumeDevices) > 0 {
		return fmt.Errorf("spec: want neither ephemeralContainers nor volumeDevices: a static pod of files has none")
	}
	for i, e := range c.Env {
		if f := e.ValueFrom; f != nil && (f.SecretKeyRef != nil || f.ConfigMapKeyRef != nil) {
			return fmt.Errorf("spec.containers[0].env[%d]: %s: want no Secret and no ConfigMap: a static pod has none", i, e.Name)
		}
	}
	if len(c.EnvFrom) > 0 {
		return fmt.Errorf("spec.containers[0].envFrom: want no Secret and no ConfigMap: a static pod has none")
	}
	var handlers []v1.ProbeHandler
	for _, p := range []*v1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if p != nil {
			handlers = append(handlers, p.ProbeHandler)
		}
	}
	if slices.ContainsFunc(handlers, func(h v1.ProbeHandler) bool { return h.Exec != nil }) {
		return fmt.Errorf("spec.containers[0]: want probes by httpGet, got one by exec: the image has no program to run")
	}
	if l := c.Lifecycle; l != nil && (l.PostStart != nil && l.PostStart.Exec != nil || l.PreStop != nil && l.PreStop.Exec != nil) {
		return fmt.Errorf("spec.containers[0].lifecycle: want no exec: the image has no program to run")
	}
	for i, v := range g.pod.Spec.Volumes {
		if h := v.HostPath; h != nil && (h.Path != path.Clean(h.Path) && h.Path != path.Clean(h.Path)+"/" || !path.IsAbs(h.Path) ||
			strings.ContainsFunc(h.Path, unicode.IsControl)) {
			return fmt.Errorf("spec.volumes[%d].hostPath.path: want an absolute path, without .. or control characters, got %q", i, h.Path)
		}
	}
	for i, m := range c.VolumeMounts {
		if at := path.Clean(m.MountPath); at == dataDir || at == runDir {
			return fmt.Errorf("spec.containers[0].volumeMounts[%d].mountPath: %s: want another, which is not the coordinator's", i, m.MountPath)
		}
	}
	return nil
}

// readArgs takes kube-scheduler's flags out of the command.
func (g *generator) readArgs() error {
	command := append(slices.Clone(g.container.Command), g.container.Args...)
	if len(command) == 0 || path.Base(command[0]) != upstream {
		return fmt.Errorf("spec.containers[0].command: want %s and its flags, as kubeadm writes them, got %q", upstream, command)
	}
	g.args = command[1:]
	var err error
	if g.files, err = g.Parse(g.args, ours()); err != nil {
		return fmt.Errorf("spec.containers[0].command: %w", err)
	}
	return nil
}

// ours are the flags of topology swap.
func ours() []string { return []string{"--embedded-etcd", "--data-dir=" + dataDir} }

// readFiles adds the files that other files name, where these are at hand.
func (g *generator) readFiles() error {
	for i := 0; i < len(g.files); i++ {
		f := g.files[i]
		if !path.IsAbs(f.Path) {
			return fmt.Errorf("%s: want an absolute path, got %q", f.Of, f.Path)
		}
		if slices.ContainsFunc(g.files[:i], func(of File) bool { return path.Clean(of.Path) == path.Clean(f.Path) }) {
			g.files = slices.Delete(g.files, i, i+1)
			i--
			continue
		}
		more, err := g.namedBy(f)
		if err != nil {
			return err
		}
		g.files = append(g.files, more...)
	}
	return nil
}

func (g *generator) namedBy(f File) ([]File, error) {
	var read func(string, []byte) ([]File, error)
	switch {
	case f.Of == "--config":
		read = g.Configuration
	case isKubeconfig(f.Of):
		read = kubeconfigFiles
	default:
		return nil, nil
	}
	volume, err := g.volumeOf(f)
	if err != nil {
		return nil, err
	}
	var text []byte
	if err = fs.ErrNotExist; g.Host != nil {
		text, err = fs.ReadFile(g.Host, strings.TrimPrefix(volume.HostPath.Path, "/"))
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		if f.Of == "--config" {
			g.notes = append(g.notes, fmt.Sprintf("%s can't be read here: the kubeconfig and the certificates that it names must be among %s",
				volume.HostPath.Path, paths(g.files)))
		}
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Of, err)
	}
	return read(f.Path, text)
}

func paths(files []File) string {
	var all []string
	for _, f := range files {
		all = append(all, f.Path)
	}
	return strings.Join(all, ", ")
}

// changeContainer makes it a coordinator's.
func (g *generator) changeContainer() error {
	c := g.container
	c.Image, c.Command, c.Args = g.Image, nil, slices.Concat([]string{"coordinator"}, g.args, ours())
	for _, e := range [][2]string{{"POD_NAME", "metadata.name"}, {"POD_NAMESPACE", "metadata.namespace"}} {
		c.Env = slices.DeleteFunc(c.Env, func(of v1.EnvVar) bool { return of.Name == e[0] })
		c.Env = append(c.Env, v1.EnvVar{Name: e[0], ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: e[1]}}})
	}
	if _, limited := c.Resources.Limits[v1.ResourceMemory]; c.Resources.Requests.Memory().IsZero() && !limited {
		if c.Resources.Requests == nil {
			c.Resources.Requests = v1.ResourceList{}
		}
		c.Resources.Requests[v1.ResourceMemory] = resource.MustParse("512Mi")
	}
	c.VolumeMounts, g.pod.Spec.Volumes = g.mounts, g.volumes
	return nil
}

// changePod has it run as its user, with no right beyond that.
func (g *generator) changePod() {
	c := g.container
	user, group, known := g.user()
	yes, no := true, false
	groups := []int64(nil)
	if s := g.pod.Spec.SecurityContext; s != nil {
		groups = s.SupplementalGroups
	}
	g.pod.Spec.SecurityContext = &v1.PodSecurityContext{
		RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &group, SupplementalGroups: groups,
		SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault},
	}
	c.SecurityContext = &v1.SecurityContext{
		AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &v1.Capabilities{Drop: []v1.Capability{"ALL"}},
	}
	// No other process's names and memory: kube-scheduler needs neither.
	g.pod.Spec.HostPID, g.pod.Spec.HostIPC = false, false
	var unread []string
	for _, v := range g.volumes {
		if !known && v.HostPath != nil && !g.everybodyReads(v.HostPath.Path) {
			unread = append(unread, quoted(v.HostPath.Path))
		}
	}
	if len(unread) > 0 {
		names := strings.Join(unread, " ")
		g.commands = append(g.commands, fmt.Sprintf("chgrp %d %s && chmod g+r %s", group, names, names))
	}
}

// quoted is a path as a shell takes it.
func quoted(file string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("/._-", r)
	}
	if !strings.ContainsFunc(file, func(r rune) bool { return !plain(r) }) {
		return file
	}
	return "'" + strings.ReplaceAll(file, "'", `'\''`) + "'"
}

// user is who the process runs as; known: the manifest's own user, who reads the files already.
func (g *generator) user() (user, group int64, known bool) {
	pod, container := g.pod.Spec.SecurityContext, g.container.SecurityContext
	if g.User != 0 {
		return g.User, g.Group, false
	}
	first := func(of ...*int64) int64 {
		for _, id := range of {
			if id != nil {
				return *id
			}
		}
		return 0
	}
	if pod == nil {
		pod = &v1.PodSecurityContext{}
	}
	if container == nil {
		container = &v1.SecurityContext{}
	}
	if user := first(container.RunAsUser, pod.RunAsUser); user != 0 {
		return user, first(container.RunAsGroup, pod.RunAsGroup), true
	}
	return DefaultUser, DefaultUser, false
}

func (g *generator) everybodyReads(file string) bool {
	if g.Host == nil {
		return false
	}
	info, err := fs.Stat(g.Host, strings.TrimPrefix(file, "/"))
	return err == nil && info.Mode().Perm()&0o004 != 0
}

// write is the manifest with its head. A static pod has no status.
func (g *generator) write() ([]byte, error) {
	text, err := json.Marshal(g.pod)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	delete(fields, "status")
	if metadata, ok := fields["metadata"].(map[string]any); ok && metadata["creationTimestamp"] == nil {
		delete(metadata, "creationTimestamp")
	}
	if text, err = yaml.Marshal(fields); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	from := path.Base(g.From)
	if strings.ContainsFunc(from, unicode.IsControl) {
		from = strconv.Quote(from)
	}
	fmt.Fprintf(&b, "# Made from %s by shardsched generate static-pod.\n", from)
	for _, c := range g.commands {
		fmt.Fprintf(&b, "# Its user must be able to read its files. On each node, before the pod is there:\n#     %s\n", c)
	}
	b.Write(text)
	var again v1.Pod
	return b.Bytes(), yaml.UnmarshalStrict(b.Bytes(), &again)
}
