// Package serving opens and guards a process's listeners: TLS for gRPC, and the
// HTTP endpoint with metrics, health and profiles.
//
// One certificate, one key and one CA serve a process both ways: as a server it
// shows the certificate and asks for one that the CA signed (mutual TLS), as a
// client it does the same. Files are read again when they change, so that a
// rotated certificate needs no restart. Without TLS a process listens on loopback only, and
// says so when asked for more.
package serving
