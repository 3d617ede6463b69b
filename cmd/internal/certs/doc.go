// Package certs makes an authority and the certificates that it signs, and keeps them in a folder:
//
//	DIR/ca.crt            what is trusted: one authority, two while one takes the other's place
//	DIR/ca.key            the key of the one that signs
//	DIR/USE/tls.crt, tls.key, ca.crt
//
// The authority that signs is the one of ca.crt whose key is ca.key, so that a change that ends halfway
// leaves the one before in place. A key is replaced by Renew and Rotate alone. Keys are readable by their
// owner only.
package certs
