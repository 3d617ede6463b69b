// Package extenders holds our client of HTTP extenders against upstream's own (HTTPExtender of
// k8s.io/kubernetes/pkg/scheduler). Both are asked for the same things by way of fwk.Extender, of
// a server on loopback that writes down what reaches it and answers both alike: drawn answers,
// good and bad.
//
// What must agree: the method, the path and the headers of each request, its body as JSON to the
// byte, what the client makes of the answer, and the text of each error.
//
// Answers on which we depart from upstream are not drawn: a node that a client without a cache of
// nodes did not name, a node named twice, and victims that are null.
package extenders
