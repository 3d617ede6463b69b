// Command console makes the screenshots of the documents anew: of the console on a scene that is the same each time, and of a
// shadow's report. Its tests open the same pages in a browser.
//
//	cd bench && go run ./cluster/console -out ../docs/images
//	cd bench && go run ./cluster/console -serve        # the scene alone, to look at, until it is interrupted
package main
