// Package quarantine knows whom the loop does not touch for a while, because it met a bug of ours or was refused by the own tables.
// The loop leaves them out, and the term goes on: the next leader would meet the same.
//
//	Suspects   classes that met a bug, and pods without a class: not evaluated until their time is over
//	Guard      calls what may meet a bug for a pod or a class, and makes a suspect of whoever does
//	Objects    what could not be taken in as a whole, until it changes or is gone (package intake)
package quarantine
