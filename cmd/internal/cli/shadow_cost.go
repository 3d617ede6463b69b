package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"k8s.io/client-go/rest"

	"github.com/shardsched/shardsched/cmd/internal/readonly"
	"github.com/shardsched/shardsched/cmd/internal/shadow"
)

// checkMetricsURL tells what is wrong with the address of a scheduler's metrics.
func checkMetricsURL(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return usagef("--scheduler-metrics: %q is no address, such as https://127.0.0.1:10259/metrics", address)
	}
	return nil
}

// schedulerSeconds reads what processor time a scheduler has used from its metrics, with the credentials of the API server: they go only
// to one whose certificate is of the same authority. "" is an address that was not given.
func schedulerSeconds(access *rest.Config, address string) (shadow.TheirSeconds, error) {
	if address == "" {
		return nil, nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("--scheduler-metrics: %w", err)
	}
	there := rest.CopyConfig(access)
	there.Host, there.APIPath, there.ServerName = u.Scheme+"://"+u.Host, "", ""
	if u.Scheme == "http" {
		there = &rest.Config{Host: there.Host} // what is sent in the clear has no credentials
	}
	if there, err = readonly.Config(there); err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(there)
	if err != nil {
		return nil, fmt.Errorf("--scheduler-metrics: %w", err)
	}
	return func(ctx context.Context) (float64, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
		if err != nil {
			return 0, err
		}
		answer, err := client.Do(r)
		if err != nil {
			return 0, err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return 0, fmt.Errorf("%s answers %s", u.Redacted(), answer.Status)
		}
		return shadow.ProcessSeconds(answer.Body)
	}, nil
}
