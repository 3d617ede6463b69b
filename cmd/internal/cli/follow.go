package cli

import (
	"context"
	"slices"
	"time"
)

// watchEvery is how often --watch asks where nobody tells of changes.
const watchEvery = 2 * time.Second

// display writes things once, or with --watch again and again.
func display[T any](ctx context.Context, o *getOptions, s Streams, v *view[T], ask func() (all any, list []T, err error)) error {
	if o.watch {
		return follow(ctx, &o.listing, s, o.every, v, ask)
	}
	all, list, err := ask()
	if err != nil {
		return err
	}
	return things(&o.listing, s, all, list, v)
}

// gone stands in the last column of what is not there any more.
const gone = "<gone>"

// follow writes things, then each that is new or is shown otherwise than before, until ctx ends. A table tells what is gone, too.
func follow[T any](ctx context.Context, l *listing, s Streams, every time.Duration, v *view[T], ask func() (any, []T, error)) error {
	p, shown := newPrinted(l, v), map[string]cells{}
	var order []string // of shown
	for {
		_, list, err := ask()
		if err != nil {
			return err
		}
		var rows []cells
		there := map[string]bool{}
		for _, x := range list {
			row, err := p.cells(x)
			if err != nil {
				return err
			}
			name := v.name(x)
			there[name] = true
			before, known := shown[name]
			if !known {
				order = append(order, name)
			}
			if !slices.Equal(before, row) {
				rows = append(rows, row)
			}
			shown[name] = slices.Clone(row)
		}
		order = slices.DeleteFunc(order, func(name string) bool {
			if there[name] {
				return false
			}
			if last := shown[name]; l.isTable() {
				last[len(last)-1] = gone
				rows = append(rows, last)
			}
			delete(shown, name)
			return true
		})
		if err := p.print(s.Out, rows...); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(every):
		}
		if ctx.Err() != nil { // both may be there
			return ctx.Err()
		}
	}
}
