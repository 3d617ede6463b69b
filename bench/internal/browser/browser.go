package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// Program is the browser's file; empty: there is none in PATH.
func Program() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if file, err := exec.LookPath(name); err == nil {
			return file
		}
	}
	return ""
}

// Browser is a running one.
type Browser struct {
	ctx  context.Context
	stop context.CancelFunc
	dir  string // its profile
}

// Start starts a browser, without a window. It ends with ctx, or with Close.
func Start(ctx context.Context, program string) (*Browser, error) {
	dir, err := os.MkdirTemp("", "browser-")
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.UserDataDir(dir), chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("no-pings", true), chromedp.Flag("font-render-hinting", "none"))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // which root can't have
	}
	b := &Browser{dir: dir}
	ctx, stop := chromedp.NewExecAllocator(ctx, options...)
	b.ctx, b.stop = chromedp.NewContext(ctx)
	own := b.stop
	b.stop = func() { own(); stop() }
	if err := chromedp.Do(b.ctx); err != nil {
		b.Close()
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	return b, nil
}

// Close ends the browser and removes its profile.
func (b *Browser) Close() {
	_ = chromedp.Cancel(b.ctx) // how it ends matters to nobody
	b.stop()
	os.RemoveAll(b.dir)
}

// View is how a page is looked at.
type View struct {
	Width, Height int64 // in CSS pixels
	Dark          bool
}

// Open opens an empty page.
func (b *Browser) Open(v View) (*Page, error) {
	p := &Page{View: v, sent: map[string]*Request{}}
	p.ctx, p.close = chromedp.NewContext(b.ctx, chromedp.WithListener(p.hear))
	if err := chromedp.Do(p.ctx, chromedp.EmulateViewport(v.Width, v.Height)); err != nil {
		return nil, fmt.Errorf("open a page: %w", err)
	}
	watch := page.AddScriptToEvaluateOnNewDocumentParams{Source: watcher}
	if _, err := chromedp.Call(p.ctx, page.AddScriptToEvaluateOnNewDocument, watch); err != nil {
		return nil, err
	}
	return p, p.Scheme(v.Dark)
}

// Scheme has the page drawn light or dark.
func (p *Page) Scheme(dark bool) error {
	p.View.Dark = dark
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
	return err
}

// patience bounds each wait; none takes that long when all is well.
const patience = 90 * time.Second

// Size has the page drawn in another size, in CSS pixels.
func (p *Page) Size(width, height int64) error {
	p.View.Width, p.View.Height = width, height
	return chromedp.Do(p.ctx, chromedp.EmulateViewport(width, height))
}
