// Package readonly reaches an API server without a way to change it.
//
// Every request goes through a transport that lets reads through: GET of objects and lists, watches, and what an API server tells of
// itself. All else is an error in this process, before a byte is sent: other methods, and subresources, for a GET of pods/exec runs a
// command, and a GET of nodes/proxy is whatever is behind it. Paths are read by the API server's own code, so that both see the same.
//
// One request is an exception, for it changes nothing: the SelfSubjectAccessReview by which MustNotBind asks whether these credentials
// may bind pods. A program that only watches refuses credentials that could do more: whoever copies them has what they may do.
package readonly
