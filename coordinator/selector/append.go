package selector

import (
	"encoding/binary"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Append writes a label selector as it stands, without reading it: equal bytes, equal
// selectors. What follows can not be taken for a part of it.
func Append(into []byte, s *metav1.LabelSelector) []byte {
	if s == nil {
		return append(into, 0)
	}
	into = AppendLabels(append(into, 1), s.MatchLabels)
	into = binary.AppendUvarint(into, uint64(len(s.MatchExpressions)))
	for i := range s.MatchExpressions {
		e := &s.MatchExpressions[i]
		into = AppendText(AppendText(into, e.Key), string(e.Operator))
		into = binary.AppendUvarint(into, uint64(len(e.Values)))
		for _, v := range e.Values {
			into = AppendText(into, v)
		}
	}
	return into
}

// AppendLabels writes a map by key.
func AppendLabels(into []byte, m map[string]string) []byte {
	into = binary.AppendUvarint(into, uint64(len(m)))
	var room [8]string
	keys := room[:0]
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		into = AppendText(AppendText(into, k), m[k])
	}
	return into
}

// AppendText writes a text so that what follows can not be taken for a part of it.
func AppendText(into []byte, s string) []byte {
	return append(binary.AppendUvarint(into, uint64(len(s))), s...)
}
