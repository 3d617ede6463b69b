package sbom

import (
	"cmp"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// BOM is the part of CycloneDX 1.6 that says what a program is made of.
type BOM struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"`
	Metadata   Metadata    `json:"metadata"`
	Components []Component `json:"components"`
}

// Metadata names the program.
type Metadata struct {
	Timestamp string    `json:"timestamp"`
	Component Component `json:"component"`
}

// Component is the program or a module.
type Component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Hashes     []Hash     `json:"hashes,omitempty"`
	Licences   []Licence  `json:"licenses,omitempty"`
	Properties []Property `json:"properties,omitempty"`
}

// Hash is what go.sum knows of a module: its h1 in hexadecimal.
type Hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// Licence wraps a licence, as the format has it.
type Licence struct {
	Licence LicenceID `json:"license"`
}

// LicenceID is an SPDX identifier.
type LicenceID struct {
	ID string `json:"id"`
}

// Property is a setting of the build.
type Property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Of reads a binary. licence is the SPDX identifier of a module.
func Of(file string, at time.Time, licence func(path, version string) (string, error)) (*BOM, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, err
	}
	main := component("application", info.Main.Path, info.Main.Version)
	main.Licences = licensed("Apache-2.0")
	for _, s := range info.Settings {
		main.Properties = append(main.Properties, Property{Name: "go:" + s.Key, Value: s.Value})
	}
	std := component("library", "std", strings.TrimPrefix(info.GoVersion, "go"))
	std.Licences = licensed("BSD-3-Clause")
	out := &BOM{
		Format: "CycloneDX", Spec: "1.6", Version: 1,
		Metadata: Metadata{Timestamp: at.UTC().Format(time.RFC3339), Component: main}, Components: []Component{std},
	}
	for _, m := range info.Deps {
		c, err := moduleOf(m, licence)
		if err != nil {
			return nil, fmt.Errorf("%s of %s: %w", m.Path, file, err)
		}
		out.Components = append(out.Components, c)
	}
	slices.SortFunc(out.Components, func(a, b Component) int { return cmp.Compare(a.Ref, b.Ref) })
	return out, nil
}

func moduleOf(m *debug.Module, licence func(path, version string) (string, error)) (Component, error) {
	for m.Replace != nil {
		m = m.Replace
	}
	c := component("library", m.Path, m.Version)
	id, err := licence(m.Path, m.Version)
	if err != nil {
		return c, err
	}
	c.Licences = licensed(id)
	sum, ok := strings.CutPrefix(m.Sum, "h1:")
	raw, err := base64.StdEncoding.DecodeString(sum)
	if !ok || err != nil {
		return c, fmt.Errorf("want a sum in the form h1:…, got %q", m.Sum)
	}
	c.Hashes = []Hash{{Algorithm: "SHA-256", Content: hex.EncodeToString(raw)}}
	return c, nil
}

// component names a module as a package URL does: each part of its path is escaped.
func component(kind, path, version string) Component {
	parts := strings.Split(path, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	purl := "pkg:golang/" + strings.Join(parts, "/") + "@" + url.QueryEscape(version)
	return Component{Type: kind, Ref: purl, Name: path, Version: version, PURL: purl}
}

func licensed(id string) []Licence { return []Licence{{LicenceID{id}}} }

// JSON is the bill with a line for each field, ending in a newline.
func (b *BOM) JSON() ([]byte, error) {
	out, err := json.MarshalIndent(b, "", "  ")
	return append(out, '\n'), err
}
