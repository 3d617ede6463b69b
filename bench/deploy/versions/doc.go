// Package versions holds a coordinator to API servers that do not have all of what Kubernetes 1.36 has. The folders beside it are
// modules of their own, of the kube-apiservers of 1.33, 1.34 and 1.35: make test-versions runs tests of other packages on them, and
// these. In each, the file except names the tests that such an API server can't pass, and why.
package versions
