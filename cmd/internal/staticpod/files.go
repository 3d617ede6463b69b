package staticpod

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/tools/clientcmd"
)

// mount makes the volumes: a file each, and two folders of the pod's own.
func (g *generator) mount() error {
	for _, f := range g.files {
		volume, err := g.volumeOf(f)
		if err != nil {
			return err
		}
		g.add(volume, v1.VolumeMount{MountPath: path.Clean(f.Path), ReadOnly: true})
	}
	if err := g.keep(); err != nil {
		return err
	}
	size := resource.MustParse("4Gi")
	g.add(v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &size}}},
		v1.VolumeMount{MountPath: dataDir})
	socket := resource.MustParse("1Mi")
	g.add(v1.Volume{Name: "run", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &socket}}},
		v1.VolumeMount{MountPath: runDir})
	return nil
}

// keep takes over mounts that no flag names: single files, and folders of the pod's own.
func (g *generator) keep() error {
	for _, m := range g.container.VolumeMounts {
		v, err := g.volume(m.Name)
		if err != nil {
			return err
		}
		taken := slices.ContainsFunc(g.mounts, func(of v1.VolumeMount) bool { return of.MountPath == path.Clean(m.MountPath) })
		switch {
		case taken:
		case v.EmptyDir != nil || v.DownwardAPI != nil:
			g.add(v, m)
		case v.HostPath == nil:
			return fmt.Errorf("spec.volumes: %s: want a hostPath, an emptyDir or a downwardAPI, as a static pod may have", v.Name)
		case isFile(v.HostPath) && m.SubPath == "" && m.SubPathExpr == "":
			m.ReadOnly = true
			g.add(v, m)
		case !g.sees(v.HostPath.Path):
			g.notes = append(g.notes, fmt.Sprintf("the folder %s is left out: of it the pod sees the files that flags name", v.HostPath.Path))
		}
	}
	return nil
}

// sees tells whether a file of a folder is mounted.
func (g *generator) sees(folder string) bool {
	return slices.ContainsFunc(g.volumes, func(v v1.Volume) bool {
		return v.HostPath != nil && strings.HasPrefix(v.HostPath.Path, strings.TrimSuffix(path.Clean(folder), "/")+"/")
	})
}

// add puts a volume in, under a name that is free.
func (g *generator) add(v v1.Volume, m v1.VolumeMount) {
	name := v.Name
	for i := 2; slices.ContainsFunc(g.volumes, func(of v1.Volume) bool { return of.Name == v.Name }); i++ {
		v.Name = fmt.Sprintf("%s-%d", name, i)
	}
	m.Name = v.Name
	g.volumes, g.mounts = append(g.volumes, v), append(g.mounts, m)
}

func isFile(h *v1.HostPathVolumeSource) bool {
	return h.Type != nil && (*h.Type == v1.HostPathFile || *h.Type == v1.HostPathFileOrCreate)
}

// volumeOf is a file of the pod's as a volume: the file of the node by itself.
func (g *generator) volumeOf(f File) (v1.Volume, error) {
	at, found := path.Clean(f.Path), -1
	for i, m := range g.container.VolumeMounts {
		if p := path.Clean(m.MountPath); p == at || strings.HasPrefix(at, strings.TrimSuffix(p, "/")+"/") {
			if found < 0 || len(p) > len(path.Clean(g.container.VolumeMounts[found].MountPath)) {
				found = i
			}
		}
	}
	if found < 0 {
		return v1.Volume{}, fmt.Errorf("%s=%s: want it in a volumeMount, got none that has it", f.Of, f.Path)
	}
	m := g.container.VolumeMounts[found]
	v, err := g.volume(m.Name)
	if err != nil {
		return v1.Volume{}, err
	}
	if v.HostPath == nil || m.SubPathExpr != "" {
		return v1.Volume{}, fmt.Errorf("%s=%s: want it in a hostPath, without subPathExpr: volume %s", f.Of, f.Path, v.Name)
	}
	if at == path.Clean(m.MountPath) && isFile(v.HostPath) && m.SubPath == "" {
		return v, nil
	}
	kind := v1.HostPathFile
	host := path.Join(v.HostPath.Path, m.SubPath, strings.TrimPrefix(at, path.Clean(m.MountPath)))
	name := strings.NewReplacer("--", "", ".", "-").Replace(f.Of)
	return v1.Volume{Name: strings.ToLower(name), VolumeSource: v1.VolumeSource{
		HostPath: &v1.HostPathVolumeSource{Path: host, Type: &kind},
	}}, nil
}

func (g *generator) volume(name string) (v1.Volume, error) {
	i := slices.IndexFunc(g.pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == name })
	if i < 0 {
		return v1.Volume{}, fmt.Errorf("spec.containers[0].volumeMounts: %s: want a volume of this name, got none", name)
	}
	return g.pod.Spec.Volumes[i], nil
}

// isKubeconfig tells whether a flag or a field names a kubeconfig.
func isKubeconfig(of string) bool { return strings.HasSuffix(of, "kubeconfig") }

// kubeconfigFiles are those that the context in use of a kubeconfig names.
func kubeconfigFiles(name string, text []byte) ([]File, error) {
	c, err := clientcmd.Load(text)
	if err != nil {
		return nil, fmt.Errorf("%s: want a kubeconfig: %w", name, err)
	}
	in, ok := c.Contexts[c.CurrentContext]
	if !ok {
		return nil, fmt.Errorf("%s: current-context: want one of its contexts, got %q", name, c.CurrentContext)
	}
	var files []File
	add := func(of, file string) {
		if file != "" && !filepath.IsAbs(file) {
			file = path.Join(path.Dir(name), file)
		}
		if file != "" {
			files = append(files, File{of, file})
		}
	}
	if cluster := c.Clusters[in.Cluster]; cluster != nil {
		add("certificate-authority", cluster.CertificateAuthority)
	}
	if user := c.AuthInfos[in.AuthInfo]; user != nil {
		if user.Exec != nil || user.AuthProvider != nil {
			return nil, fmt.Errorf("%s: users[%s]: want a certificate or a token: the image has no program to run", name, in.AuthInfo)
		}
		add("client-certificate", user.ClientCertificate)
		add("client-key", user.ClientKey)
		add("token-file", user.TokenFile)
	}
	return files, nil
}
