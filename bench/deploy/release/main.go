package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/shardsched/shardsched/bench/deploy/image"
)

const usage = "want release image … or release dist …; see -h of each"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	fs := flag.NewFlagSet("release "+args[0], flag.ContinueOnError)
	root := fs.String("root", "..", "top of the repository")
	switch args[0] {
	case "image":
		out := fs.String("out", "", "folder of the OCI layout; empty: none is written")
		push := fs.String("push", "", "REGISTRY/NAME:TAG to push to; empty: nothing is pushed")
		list := fs.String("platforms", "linux/amd64,linux/arm64", "OS/ARCHITECTURE, with commas")
		if err := parse(fs, args[1:]); err != nil {
			return err
		}
		platforms, err := parsePlatforms(*list)
		if err != nil {
			return err
		}
		source, err := image.Open(ctx, *root)
		if err != nil {
			return err
		}
		return buildImages(ctx, source, *out, *push, platforms)
	case "dist":
		r := &release{log: os.Stdout}
		fs.StringVar(&r.version, "version", "", "as in v1.2.3")
		fs.StringVar(&r.out, "out", "../dist", "folder; it must not be there yet")
		fs.StringVar(&r.database, "vulndb", os.Getenv("GOVULNDB"), "URL of a database of vulnerabilities for govulncheck; empty: it is not run")
		if err := parse(fs, args[1:]); err != nil {
			return err
		}
		var err error
		if r.source, err = image.Open(ctx, *root); err != nil {
			return err
		}
		return r.make(ctx)
	}
	return errors.New(usage)
}

func parse(fs *flag.FlagSet, args []string) error {
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("%s: want flags only, got %q", fs.Name(), fs.Arg(0))
	}
	return nil
}

func parsePlatforms(list string) (out []image.Platform, err error) {
	for s := range strings.SplitSeq(list, ",") {
		p, err := image.ParsePlatform(s)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}
