package image

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	// Binary and Roots are the files of an image: the program, and the certificates (PEM) of the authorities that HTTPS and OTLP
	// trust where no file is given.
	Binary = "usr/local/bin/shardsched"
	Roots  = "etc/ssl/certs/ca-certificates.crt"
	// User is nobody's account.
	User = "65532:65532"

	refName = "org.opencontainers.image.ref.name"
)

// ports are those that docs and manifests name: client API and HTTP of a coordinator, gRPC and HTTP of a worker, kube-scheduler's HTTPS.
var ports = []string{"7450/tcp", "7451/tcp", "7460/tcp", "7461/tcp", "10259/tcp"}

// Labels are an image's, and the annotations of its index.
type Labels struct {
	// Version is the release, or the commit where there is none.
	Version, Revision string
	// Source is the URL of the repository.
	Source  string
	Created time.Time
}

func (l *Labels) all() map[string]string {
	const prefix = "org.opencontainers.image."
	return map[string]string{
		prefix + "title":       "shardsched",
		prefix + "description": "A kube-scheduler whose filtering and scoring runs on sharded workers",
		prefix + "version":     l.Version,
		prefix + "revision":    l.Revision,
		prefix + "source":      l.Source,
		prefix + "licenses":    "Apache-2.0",
		prefix + "created":     l.Created.Format(time.RFC3339),
	}
}

// File is a binary and what it runs on.
type File struct {
	Platform Platform
	Path     string
}

// Index makes an image of each binary, and the index of them, in the order of the binaries.
func Index(l Labels, binaries ...File) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	base, err := layerOf(l.Created, entry{Roots, 0o644, rootCertificates()}, entry{path: "tmp/", mode: 0o1777})
	if err != nil {
		return nil, fmt.Errorf("layer of certificates: %w", err)
	}
	for _, b := range binaries {
		img, err := imageOf(&l, b, base)
		if err != nil {
			return nil, fmt.Errorf("image for %s: %w", b.Platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: b.Platform.OS, Architecture: b.Platform.Arch},
		}})
	}
	return mutate.Annotations(index, l.all()).(v1.ImageIndex), nil
}

func imageOf(l *Labels, b File, base v1.Layer) (v1.Image, error) {
	program, err := os.ReadFile(b.Path)
	if err != nil {
		return nil, err
	}
	layer, err := layerOf(l.Created, entry{Binary, 0o755, program})
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	by := func(layer v1.Layer, what string) mutate.Addendum {
		return mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: l.Created}, CreatedBy: what}}
	}
	img, err = mutate.Append(img, by(base, "certificates of authorities, and a folder for temporary files"), by(layer, "shardsched"))
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = b.Platform.OS, b.Platform.Arch, v1.Time{Time: l.Created}
	config.Config = v1.Config{
		User: User, Entrypoint: []string{"/" + Binary}, Labels: l.all(), ExposedPorts: map[string]struct{}{}, WorkingDir: "/",
	}
	for _, p := range ports {
		config.Config.ExposedPorts[p] = struct{}{}
	}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return nil, err
	}
	return mutate.Annotations(img, l.all()).(v1.Image), nil
}

// layerOf is a layer of files of root, in their folders.
func layerOf(at time.Time, files ...entry) (v1.Layer, error) {
	var text bytes.Buffer
	if err := writeTar(&text, at, files...); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
}

// rootCertificates are those that Mozilla trusts without a reservation, in PEM: such a file can't say of what a certificate may
// be trusted for.
func rootCertificates() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes everything
		}
	}
	return out.Bytes()
}

// Save adds an index to an OCI layout under a tag; the folder is made where it is missing.
func Save(dir, tag string, index v1.ImageIndex) error {
	at, err := layout.FromPath(dir)
	if err != nil {
		if at, err = layout.Write(dir, empty.Index); err != nil {
			return err
		}
	}
	return at.AppendIndex(index, layout.WithAnnotations(map[string]string{refName: tag}))
}

// Push sends an index to a registry, as the user that Docker's configuration names there. Registries on loopback are spoken to in
// plain HTTP.
func Push(ctx context.Context, reference string, index v1.ImageIndex) error {
	to, err := name.ParseReference(reference, name.StrictValidation)
	if err != nil {
		return err
	}
	return remote.WriteIndex(to, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
}

// entry is a file of a tar, or a folder, whose path ends in /.
type entry struct {
	path    string
	mode    int64
	content []byte
}

// writeTar writes files of root, each behind the folders that it is in, all of one time.
func writeTar(out io.Writer, at time.Time, files ...entry) error {
	w := tar.NewWriter(out)
	folders := map[string]bool{}
	for _, f := range files {
		for i, c := range f.path {
			folder := f.path[:i]
			if c != '/' || folders[folder] || i == len(f.path)-1 {
				continue
			}
			folders[folder] = true
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: 0o755, ModTime: at}); err != nil {
				return err
			}
		}
		if strings.HasSuffix(f.path, "/") {
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: f.path, Mode: f.mode, ModTime: at}); err != nil {
				return err
			}
			continue
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: f.mode, Size: int64(len(f.content)), ModTime: at}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(f.content); err != nil {
			return err
		}
	}
	return w.Close()
}
