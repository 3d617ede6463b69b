package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/shardsched/shardsched/bench/internal/browser"
)

// shot is a picture of a page.
type shot struct {
	// name is that of the file, behind console- and before .png.
	name string
	// at is the address below the console's first page.
	at string
	// follow are the links to follow from there, as CSS selectors.
	follow []string
	// press is the button to press then, as a CSS selector; empty: none.
	press string
	// ready is true once the page shows what is to be seen; empty: as soon as it is loaded.
	ready string
	dark  bool
	// height of the picture; 0: 800.
	height int64
}

var shots = []shot{
	{name: "overview", at: ""},
	{name: "cluster", at: "cluster"},
	{name: "pending", at: "pending"},
	{name: "pod", at: "pending", follow: []string{`a[href^="workload?"]`, `a[href^="pod?"]`}, height: 1000},
	{name: "preemptions", at: "preemptions", dark: true},
	{name: "plugins", at: "plugins"},
	{name: "whatif", at: "whatif?drain=general-a-0000+general-b-0000+gpu-c-0190", press: "form.question button",
		ready: `document.querySelector("#answer") !== null`},
}

// maxBytes is what a picture of the documents may have.
const maxBytes = 150_000

// shoot makes the pictures whose names begin as asked.
func shoot(ctx context.Context, s *server, out, only string) error {
	program := browser.Program()
	if program == "" {
		return errors.New("no Chromium in PATH; make test-browser installs it")
	}
	b, err := browser.Start(ctx, program)
	if err != nil {
		return err
	}
	defer b.Close()
	for _, x := range shots {
		if !strings.HasPrefix(x.name, only) {
			continue
		}
		if err := x.take(b, s.console, filepath.Join(out, "console-"+x.name+".png")); err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
	}
	return nil
}

func (x *shot) take(b *browser.Browser, console, file string) error {
	height := x.height
	if height == 0 {
		height = 800
	}
	p, err := b.Open(browser.View{Width: 1280, Height: height, Dark: x.dark})
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.Go(console + x.at); err != nil {
		return err
	}
	for _, link := range x.follow {
		to, err := browser.Eval[string](p, "document.querySelector('main').querySelector("+strconv.Quote(link)+").href")
		if err != nil {
			return err
		}
		if err := p.Go(to); err != nil {
			return err
		}
	}
	if x.press != "" {
		if err := p.Click(x.press); err != nil {
			return err
		}
	}
	if x.ready != "" {
		if err := p.Until(x.ready); err != nil {
			return err
		}
	}
	png, err := p.PNG(false)
	if err != nil {
		return err
	}
	if png, err = small(png); err != nil {
		return err
	}
	fmt.Printf("%s: %d bytes\n", file, len(png))
	return os.WriteFile(file, png, 0o644)
}
