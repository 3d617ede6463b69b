package otlp

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
)

// variable is the value of one of OpenTelemetry's variables: that for traces goes before that for all
// signals.
func variable(name string) string {
	return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_"+name), os.Getenv("OTEL_EXPORTER_OTLP_"+name))
}

// transport is plain, as that of upstream's components, unless one of OpenTelemetry's variables speaks
// of it: then the library does what the variables say, which is TLS but for a URL http:// or INSECURE=true.
// The library would go on without a file that can't be read.
func transport() ([]otlptracegrpc.Option, error) {
	if file := variable("CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		if err == nil && !x509.NewCertPool().AppendCertsFromPEM(pem) {
			err = fmt.Errorf("%s holds no certificate", file)
		}
		if err != nil {
			return nil, fmt.Errorf("tracing: OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
	}
	if cert, key := variable("CLIENT_CERTIFICATE"), variable("CLIENT_KEY"); cert != "" || key != "" {
		if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
			return nil, fmt.Errorf("tracing: OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE, OTEL_EXPORTER_OTLP_CLIENT_KEY: %w", err)
		}
	}
	for _, name := range []string{"ENDPOINT", "INSECURE", "CERTIFICATE", "CLIENT_CERTIFICATE"} {
		if variable(name) != "" {
			return nil, nil
		}
	}
	return []otlptracegrpc.Option{otlptracegrpc.WithInsecure()}, nil
}
