package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Latency is how long a message is on its way, drawn for each of them; its bytes come on top.
type Latency struct {
	text string
	draw func(*rand.Rand) float64 // µs
}

func (l Latency) String() string { return l.text }

// MarshalText writes what newLatency reads.
func (l Latency) MarshalText() ([]byte, error) { return []byte(l.text), nil }

// UnmarshalText reads what MarshalText writes.
func (l *Latency) UnmarshalText(text []byte) (err error) {
	*l, err = newLatency(string(text))
	return err
}

// newLatency reads a duration, the same for all, exp:MEAN, or lognormal:MEDIAN,SIGMA.
func newLatency(text string) (Latency, error) {
	wrong := fmt.Errorf("latency %q: expected a duration, exp:MEAN or lognormal:MEDIAN,SIGMA, as 100us, exp:200us, lognormal:150us,0.5", text)
	kind, rest, named := strings.Cut(text, ":")
	if !named {
		kind, rest = "", text
	}
	duration, sigma, shaped := strings.Cut(rest, ",")
	d, err := time.ParseDuration(duration)
	if err != nil || d < 0 {
		return Latency{}, wrong
	}
	typical := micros(d)
	switch {
	case kind == "" && !named && !shaped:
		return Latency{text, func(*rand.Rand) float64 { return typical }}, nil
	case kind == "exp" && !shaped:
		return Latency{text, func(r *rand.Rand) float64 { return r.ExpFloat64() * typical }}, nil
	case kind == "lognormal" && shaped:
		if s, err := strconv.ParseFloat(sigma, 64); err == nil && s >= 0 && s <= 10 {
			return Latency{text, func(r *rand.Rand) float64 { return typical * math.Exp(s*r.NormFloat64()) }}, nil
		}
	}
	return Latency{}, wrong
}
