package sbom

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestEqualsGoVersion holds the bill of the program that makes releases to what `go version -m` prints.
func TestEqualsGoVersion(t *testing.T) {
	file := filepath.Join(t.TempDir(), "release")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", file, "../release").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	licences, err := Licences(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	bom, err := Of(file, time.Unix(1000, 0), licences)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "version", "-m", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, m := range regexp.MustCompile(`(?m)^\s(?:dep|=>)\s(\S+)\s(\S+)`).FindAllStringSubmatch(string(out), -1) {
		want = append(want, m[1]+" "+m[2])
	}
	var got []string
	for _, c := range bom.Components {
		if c.Name == "std" {
			continue
		}
		got = append(got, c.Name+" "+c.Version)
		if len(c.Licences) != 1 || len(c.Hashes) != 1 || len(c.Hashes[0].Content) != 64 {
			t.Errorf("%s: got licences %v and hashes %v, want one each, the hash of 64 digits", c.Name, c.Licences, c.Hashes)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" || len(want) == 0 {
		t.Errorf("modules (-want +got):\n%s", d)
	}
	first, err := bom.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := bom.JSON(); err != nil || string(again) != string(first) || !strings.Contains(string(first), `"timestamp": "1970-01-01T00:16:40Z"`) {
		t.Errorf("got %s, %v the second time; want what came first, with the time that was given", again, err)
	}
}

func TestLicences(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"   Apache License\n  Version 2.0, January 2004\n", "Apache-2.0"},
		{"Permission is hereby granted, free of charge, to any person obtaining a\ncopy of this software", "MIT"},
		{"Redistribution and use in source and binary forms, with … Neither the name of Google", "BSD-3-Clause"},
		{"Redistribution and use in source and binary forms, with or without", "BSD-2-Clause"},
		{"Mozilla Public License Version 2.0", "MPL-2.0"},
		{"GNU GENERAL PUBLIC LICENSE Version 3", ""},
	} {
		if got := identify(c.text); got != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
	dir := t.TempDir()
	if _, err := licenceIn(dir); err == nil || !strings.Contains(err.Error(), "want a file LICENSE") {
		t.Errorf("without a file: got %v, want it missed", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "LICENSE"), []byte("All rights reserved."), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := licenceIn(dir); err == nil || !strings.Contains(err.Error(), "licences that a release may hold") {
		t.Errorf("of another text: got %v, want it refused", err)
	}
}

func TestRefusesWhatIsNoProgram(t *testing.T) {
	file := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Of(file, time.Time{}, func(string, string) (string, error) { return "", fmt.Errorf("unasked") }); err == nil {
		t.Error("got no error, want the file refused")
	}
}
