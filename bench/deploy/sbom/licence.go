package sbom

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// words tell licences apart, those that contain another's words first. Only these licences may be in a release.
var words = []struct {
	id  string
	all []string
}{
	{"Apache-2.0", []string{"apache license version 2.0, january 2004"}},
	{"MPL-2.0", []string{"mozilla public license", "version 2.0"}},
	{"MIT", []string{"permission is hereby granted, free of charge, to any person obtaining a copy"}},
	{"ISC", []string{"permission to use, copy, modify, and"}},
	{"BSD-3-Clause", []string{"redistribution and use in source and binary forms", "neither the name"}},
	{"BSD-3-Clause", []string{"redistribution and use in source and binary forms", "the names of its contributors may not be used"}},
	{"BSD-2-Clause", []string{"redistribution and use in source and binary forms"}},
}

// Licences reads the licences of a module's dependencies from the module cache; dir is a folder of the module.
func Licences(ctx context.Context, dir string) (func(path, version string) (string, error), error) {
	const line = "{{.Path}} {{.Version}} {{.Dir}}"
	c := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{with .Replace}}"+line+"{{else}}"+line+"{{end}}", "all")
	c.Dir = dir
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("list modules: %w", err)
	}
	folders := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 3 {
			folders[f[0]+"@"+f[1]] = f[2]
		}
	}
	return func(path, version string) (string, error) {
		folder := folders[path+"@"+version]
		if folder == "" {
			return "", fmt.Errorf("module %s@%s is not in the module cache", path, version)
		}
		return licenceIn(folder)
	}, nil
}

// licenceIn finds out the licence of a module from the first file in its folder that is called so.
func licenceIn(folder string) (string, error) {
	for _, pattern := range []string{"LICENSE*", "LICENCE*", "License*", "license*", "COPYING*"} {
		files, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return "", err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return "", err
			}
			if id := identify(string(text)); id != "" {
				return id, nil
			}
			return "", fmt.Errorf("%s: want one of the licences that a release may hold, got another text", file)
		}
	}
	return "", fmt.Errorf("%s: want a file LICENSE, got none", folder)
}

// identify is the SPDX identifier of a licence's text; empty: none that is known here.
func identify(text string) string {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	for _, w := range words {
		found := true
		for _, part := range w.all {
			found = found && strings.Contains(text, part)
		}
		if found {
			return w.id
		}
	}
	return ""
}
