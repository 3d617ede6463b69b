package browser

import "os"

// Required is the variable that has tests fail where there is no browser: make test-browser sets it.
const Required = "TEST_BROWSER"

// T is what Need asks of a test.
type T interface {
	Helper()
	Skip(...any)
	Fatal(...any)
}

// Need is the browser's file. Without one the test is left out and says so, unless TEST_BROWSER is set: then it fails.
func Need(t T) string {
	t.Helper()
	file := Program()
	if file == "" {
		if os.Getenv(Required) != "" {
			t.Fatal("no Chromium in PATH")
		}
		t.Skip("SKIP: no Chromium in PATH; make test-browser installs it")
	}
	return file
}
