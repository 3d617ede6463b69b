package cli

import (
	"fmt"

	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
)

// The formats of the log, by kube-scheduler's names.
const (
	logText = logsapi.DefaultLogFormat
	logJSON = "json"
)

// addLogFormat offers --logging-format where kube-scheduler's own flags are not.
func addLogFormat(fs *pflag.FlagSet, format *string) {
	fs.StringVar(format, "logging-format", logText, "how the log is written: text or json")
}

func validateLogFormat(format string) error {
	if format != logText && format != logJSON {
		return usagef("--logging-format: %q is neither %s nor %s", format, logText, logJSON)
	}
	return nil
}

// logAs has the process log in a format, at the levels that -v and --vmodule among fs say.
func logAs(format string, fs *pflag.FlagSet) error {
	c := logsapi.NewLoggingConfiguration()
	c.Format = format
	for name, value := range map[string]pflag.Value{
		"v": logsapi.VerbosityLevelPflag(&c.Verbosity), "vmodule": logsapi.VModuleConfigurationPflag(&c.VModule),
	} {
		if err := value.Set(fs.Lookup(name).Value.String()); err != nil {
			return fmt.Errorf("--%s: %w", name, err)
		}
	}
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged
	if err := logsapi.ValidateAndApply(c, nil); err != nil {
		return usageError{err}
	}
	return nil
}
