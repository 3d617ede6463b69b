package shardschedv1

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// MaxRow bounds the rows of a shard: four times a cluster of a million nodes that is one
	// shard. It is what keeps a single delta from growing a table without limit.
	MaxRow = 1 << 22
	// MaxShard bounds the number of a shard.
	MaxShard = 1 << 20
	// MaxCandidates bounds the candidates that a group offers.
	MaxCandidates = 1 << 16

	maxText    = 4 << 10  // what tables keep: names, keys, values
	maxOperand = 1 << 20  // a value that only a query holds
	maxMessage = 64 << 10 // texts for people
	maxObject  = 4 << 20
	maxCores   = 1 << 12 // its weight: nobody is to outweigh a fleet by claiming more
	maxTop     = 1000
	// maxMapLabels is how many labels may group the nodes of a map.
	maxMapLabels = 2
	maxPageSize  = 10000
	maxHost      = 253 // of DNS
	// maxWeight keeps a plugin's score of 100 times its weight within an int64, the sum over
	// the plugins included.
	maxWeight = (1<<63 - 1) / 100
)

// FieldError says which field of a message is wrong.
type FieldError struct {
	// Path leads to the field from the message that was validated, in the proto's names.
	Path string
	// Problem tells what was expected there, and what was found.
	Problem string
}

// Error is "path: problem".
func (e *FieldError) Error() string {
	if e.Path == "" {
		return e.Problem
	}
	return e.Path + ": " + e.Problem
}

// wrong reports a field.
func wrong(field, format string, args ...any) error {
	return &FieldError{Path: field, Problem: fmt.Sprintf(format, args...)}
}

// in puts a field before the path of an error from within it.
func in(field string, err error) error {
	if err == nil {
		return nil
	}
	e := err.(*FieldError)
	if e.Path != "" && e.Path[0] != '[' {
		field += "."
	}
	e.Path = field + e.Path
	return e
}

// at is in for one element of a list.
func at(field string, i int, err error) error {
	return in(fmt.Sprintf("%s[%d]", field, i), err)
}

// each validates the elements of a list.
func each[T interface{ Validate() error }](field string, list []T) error {
	for i, x := range list {
		if err := x.Validate(); err != nil {
			return at(field, i, err)
		}
	}
	return nil
}

// text checks a string that may be empty.
func text(field, s string, limit int) error {
	if len(s) > limit {
		return wrong(field, "expected at most %d bytes, got %d", limit, len(s))
	}
	if !utf8.ValidString(s) {
		return wrong(field, "expected UTF-8")
	}
	return nil
}

// name checks a string that may not be empty.
func name(field, s string) error {
	if s == "" {
		return wrong(field, "expected a value, got none")
	}
	return text(field, s, maxText)
}

// path checks one element of a key in etcd.
func path(field, s string) error {
	if err := name(field, s); err != nil {
		return err
	}
	if strings.IndexByte(s, '/') >= 0 {
		return wrong(field, "expected a name without \"/\", got %q", short(s))
	}
	return nil
}

// sortedNames checks a list of names: strictly ascending.
func sortedNames(field string, list []string) error {
	for i, s := range list {
		if err := name("", s); err != nil {
			return at(field, i, err)
		}
		if i > 0 && list[i-1] >= s {
			return at(field, i, wrong("", "expected a name after %q, got %q", short(list[i-1]), short(s)))
		}
	}
	return nil
}

// natural checks an amount.
func natural(field string, v int64) error {
	if v < 0 {
		return wrong(field, "expected 0 or more, got %d", v)
	}
	return nil
}

// within checks a range, its ends included.
func within(field string, v, least, most int64) error {
	if v < least || v > most {
		return wrong(field, "expected %d to %d, got %d", least, most, v)
	}
	return nil
}

// member checks an enum: one of its values, the unspecified not among them.
func member[E interface {
	~int32
	String() string
}](field string, v, last E) error {
	if v < 1 || v > last {
		return wrong(field, "expected a specified value, got %s", v.String())
	}
	return nil
}

// row checks the index of a row.
func row(field string, v uint32) error { return within(field, int64(v), 0, MaxRow-1) }

// shard checks the number of a shard.
func shard(field string, v uint32) error { return within(field, int64(v), 0, MaxShard-1) }

// term checks a fencing number.
func term(field string, v uint64) error {
	if v == 0 {
		return wrong(field, "expected a term, got 0")
	}
	return nil
}

// hostPort checks an address.
func hostPort(field, s string) error {
	if err := name(field, s); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(s)
	number, odd := strconv.ParseUint(port, 10, 16)
	if err != nil || host == "" || len(host) > maxHost || strings.ContainsFunc(host, notOfHosts) || odd != nil || number == 0 {
		return wrong(field, "expected host:port, got %q", short(s))
	}
	return nil
}

// notOfHosts tells what neither a DNS name nor an IP address with a zone has.
func notOfHosts(r rune) bool {
	letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	return !letter && !strings.ContainsRune("-._:%", r)
}

// short cuts what an error quotes.
func short(s string) string {
	const keep = 64
	if len(s) <= keep {
		return s
	}
	return s[:keep] + "…"
}
