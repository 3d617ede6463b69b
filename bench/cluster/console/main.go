package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	out := flag.String("out", "", "write the screenshots to this folder")
	serve := flag.Bool("serve", false, "only serve the scene, until interrupted")
	nodes := flag.Int("nodes", 3000, "nodes of the scene")
	only := flag.String("only", "", "only the screenshots whose names begin so")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *out, *serve, *nodes, *only); err != nil {
		fmt.Fprintln(os.Stderr, "console:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out string, serve bool, nodes int, only string) error {
	dir, err := os.MkdirTemp("", "console-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b, err := newBed(ctx, dir)
	if err != nil {
		return err
	}
	defer b.Close()
	s, err := b.scene(ctx, nodes)
	if err != nil {
		return err
	}
	if serve {
		fmt.Println(s.console)
		select {
		case <-ctx.Done():
		case <-s.Done():
		}
		return nil
	}
	return shoot(ctx, s, out, only)
}
