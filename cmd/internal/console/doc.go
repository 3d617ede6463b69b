// Package console is a web page on a scheduler: what its client API answers, for people to look at. It changes nothing.
//
//	browser ──GET──> Console ──page.show──> templates/NAME.html   pages, below /console/
//	                    ├─────gateway────> protojson of an answer  /console/api/v1/RPC?field=…
//	                    └─────assets─────> style, scripts          /console/assets/HASH/NAME
//	         pages and gateway ──> shared ──> SchedulerService      a call of each kind a second, however many look
//
// All that is shown is an answer of an RPC of proto/shardsched/v1/scheduler.proto. So the command line shows the same, and
// offline a simulated scheduler takes the place of a live one. What RPCs do not tell, such as environment variables, is not shown.
//
// # A page
//
// A page is one Go file, one template and, if it needs one, one script of the same name. Its constructor stands in pages. Its show asks
// RPCs and returns what the template gets: plain data, so that the template decides nothing. All addresses in pages are relative to
// /console/, so that the console works below any prefix: a page's path is one segment, and objects are named by the query.
//
// Scripts stand in files: the content security policy forbids inline code. assets/live.js fetches a page again every two seconds while
// it is visible and takes over what has changed, so that focus, open details and the scroll position stay.
//
// # What it costs
//
// Nothing while nobody looks: no goroutine, no timer. While many look, calls of the same arguments within a second are one, and four
// calls at the most are under way.
package console
