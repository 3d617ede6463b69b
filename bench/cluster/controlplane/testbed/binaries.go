package testbed

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// program is a Go program that a bed runs.
type program struct {
	name, path string
	// from is the module to build it in; empty: that of the current folder.
	from string
	// folder is that to build it in, within the module.
	folder string
	// ldflags are the linker's.
	ldflags string
}

// binaryEnv names a file to use for shardsched, instead of building it.
const binaryEnv = "TESTBED_SHARDSCHED"

// kubernetesEnv names the folder below bench/deploy/versions, such as v1.33, whose kube-apiserver runs; empty: that of the module.
const kubernetesEnv = "TESTBED_KUBERNETES"

const ours = "github.com/shardsched/shardsched"

// kubeVersion is what upstream's programs say they are; a build from the module cache
// knows no version.
var kubeVersion = versionFlags("v1.36.3")

func versionFlags(version string) string {
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	const of = "-X k8s.io/component-base/version."
	return of + "gitVersion=" + version + " " + of + "gitMajor=" + parts[0] + " " + of + "gitMinor=" + parts[1]
}

var (
	etcdProgram        = program{name: "etcd", path: ours + "/bench/cluster/controlplane/etcd", from: ours + "/bench"}
	controllersProgram = program{name: "controllers", path: ours + "/bench/cluster/controlplane/controllers", from: ours + "/bench"}
	apiServerProgram   = program{name: "kube-apiserver", path: "k8s.io/kubernetes/cmd/kube-apiserver", from: ours + "/bench",
		ldflags: kubeVersion}
	upstreamProgram = program{name: "kube-scheduler", path: "k8s.io/kubernetes/cmd/kube-scheduler", from: ours + "/bench",
		ldflags: kubeVersion}
	oursProgram = program{name: "shardsched", path: ours + "/cmd/shardsched", from: ours}
)

// Programs of schedulers with plugins compiled in: see Scheduler.Program.
const (
	PluginsOurs   = "cluster/plugins/ours"
	PluginsTheirs = "cluster/plugins/theirs"
)

// ObservedGeneration is what an API server keeps of a pod condition's observedGeneration: one of 1.33 drops it.
func ObservedGeneration(told int64) int64 {
	if os.Getenv(kubernetesEnv) == "v1.33" {
		return 0
	}
	return told
}

// apiServer is the program of the API server that the environment asks for.
func apiServer(ctx context.Context) (program, error) {
	p := apiServerProgram
	folder := os.Getenv(kubernetesEnv)
	if folder == "" {
		return p, nil
	}
	p.name, p.folder = p.name+"-"+folder, "deploy/versions/"+folder
	dir, err := p.module(ctx)
	if err != nil {
		return p, err
	}
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	list.Dir = filepath.Join(dir, filepath.FromSlash(p.folder))
	version, err := list.Output()
	if err != nil {
		return p, fmt.Errorf("%s=%s: want a folder below bench/deploy/versions: %w", kubernetesEnv, folder, err)
	}
	p.ldflags = versionFlags(strings.TrimSpace(string(version)))
	return p, nil
}

// pluginProgram is that of a folder of the bench module.
func pluginProgram(folder string) program {
	return program{name: "plugins-" + filepath.Base(folder), path: ".", from: ours + "/bench", folder: folder, ldflags: kubeVersion}
}

// Build builds all programs that a bed may need, so that starting one does not have to.
func Build(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "testbed-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, of := range []string{PluginsOurs, PluginsTheirs} {
		if _, err := pluginProgram(of).build(ctx, dir); err != nil {
			return err
		}
	}
	return BuildIn(ctx, dir)
}

// BuildIn builds them into a folder: see Config.Programs.
func BuildIn(ctx context.Context, dir string) error {
	api, err := apiServer(ctx)
	if err != nil {
		return err
	}
	for _, p := range []program{etcdProgram, api, controllersProgram, upstreamProgram, oursProgram} {
		if _, err := p.build(ctx, dir); err != nil {
			return err
		}
	}
	return nil
}

// Shardsched builds our program alone, as its source is now, and returns a file in dir.
func Shardsched(ctx context.Context, dir string) (string, error) { return oursProgram.build(ctx, dir) }

// build makes the program as its source is now and returns a file in dir. The linked
// program is kept beside Go's build cache: where it is current nothing is done but to
// find that out. Processes that build the same take turns.
func (p program) build(ctx context.Context, dir string) (string, error) {
	own := filepath.Join(dir, p.name)
	if file := os.Getenv(binaryEnv); file != "" && p == oursProgram {
		return own, link(file, own)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "shardsched-testbed")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(cache, p.name+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	module, err := p.module(ctx)
	if err != nil {
		return "", err
	}
	built := filepath.Join(cache, p.name)
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags", p.ldflags, "-o", built, p.path)
	build.Dir = filepath.Join(module, filepath.FromSlash(p.folder))
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", p.path, err, out)
	}
	return own, link(built, own)
}

// module is the folder that the program is built in. The current folder is within the
// bench module.
func (p program) module(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", p.from).Output()
	if err != nil {
		return "", fmt.Errorf("find module %s: %w", p.from, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// lock waits for an exclusive lock on a file.
func lock(name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return func() { f.Close() }, nil
}

// link gives a file another name that lives on when the first one is replaced.
func link(from, to string) error {
	if err := os.Remove(to); err != nil && !os.IsNotExist(err) {
		return err
	}
	if os.Link(from, to) == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
