package console

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
)

// policy lets pages load what this server gives, and nothing else: no inline code, whatever a name holds.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// protect sets the headers that every answer has.
func protect(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// packFrom is the size from which an answer is worth packing: a packet.
const packFrom = 1400

// reply sends an answer, packed where that helps.
func reply(w http.ResponseWriter, r *http.Request, code int, kind string, content []byte) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Vary", "Accept-Encoding")
	if len(content) >= packFrom && takesGzip(r) {
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // a level that there is
		z.Write(content)
		z.Close()
		h.Set("Content-Encoding", "gzip")
		content = b.Bytes()
	}
	send(w, r, code, content)
}

// send ends an answer. A HEAD request gets its headers alone.
func send(w http.ResponseWriter, r *http.Request, code int, content []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	w.WriteHeader(code)
	if r.Method != http.MethodHead {
		w.Write(content)
	}
}

// takesGzip tells whether a request takes packed answers.
func takesGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, weight, _ := strings.Cut(coding, ";")
		weight = strings.ReplaceAll(weight, " ", "")
		if strings.TrimSpace(name) == "gzip" && weight != "q=0" && !strings.HasPrefix(weight, "q=0.000") {
			return true
		}
	}
	return false
}
