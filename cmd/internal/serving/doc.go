// Package serving opens and guards a process's listeners: TLS for gRPC, and the
// HTTP endpoint with metrics, health and profiles.
//
// One certificate, one key and one CA serve a process both ways: as a server it
// shows the certificate and asks for one that the CA signed (mutual TLS), as a
// client it does the same. Files are read again when they change, the CA's too, and
// connections have an age, so that what is rotated needs no restart.
//
// A certificate's Identity tells the holder's role, and Callers which roles may make a
// call: a Guard asks both for each call of gRPC and HTTP, on behalf of servers, and checks the
// role of the server that a client has dialled. Without TLS a process listens on loopback only, and
// says so when asked for more.
package serving
