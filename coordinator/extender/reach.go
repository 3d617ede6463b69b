package extender

import (
	"context"
	"io"
	"net/http"
)

// Reach tells whether anything answers at the extender's address, by a GET that is none of its verbs. Any answer will do.
func (e *Extender) Reach(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.prefix, nil)
	if err != nil {
		return err
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, maxError)
	return nil
}
