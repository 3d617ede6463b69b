// Package authority signs certificates for tests.
package authority
