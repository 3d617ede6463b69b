// Package browser drives a Chromium that is installed on this machine, for tests and for screenshots of pages, and tells what is wrong
// with a page.
//
//	Program ──> Start ──> Browser.Open ──> Page: Go, Until, Press, Click, PNG
//	                                        ├─ Faults    what the browser complained of while the page was open
//	                                        ├─ Requests  what was asked of whom, in bytes
//	                                        └─ Audit     names, headings, tables, contrast, layout, focus by keyboard
//
// The browser has a profile of its own, in a folder that is removed, and asks nothing of anybody by itself.
package browser
