// Package process runs the processes of a test or a measurement: real ones, that can be
// stopped, killed and watched by what they print.
//
//	Start ──> running ──Kill──> gone        Close kills what is left, each by its own id
//	            │  ^
//	      Pause v  │ Resume
//	           paused
//
// Standard output and standard error of a process go to one file. On Linux the
// processes of a Group die with the process that started them, however it ends.
//
// Quota and Turns hold processes to a share of a core, by the kernel or by signals.
package process
