package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// kubeAccess is how a command reaches an API server.
type kubeAccess struct {
	file, context string
}

func (a *kubeAccess) addFlags(fs *pflag.FlagSet, what string) {
	fs.StringVar(&a.file, "kubeconfig", "", "kubeconfig `FILE` of the API server "+what+" (default $KUBECONFIG, else ~/.kube/config; in a "+
		"pod, its service account)")
	fs.StringVar(&a.context, "context", "", "`NAME` of the kubeconfig's context (default its current one)")
}

// given tells whether the command line names an API server.
func (a *kubeAccess) given() bool { return a.file != "" || a.context != "" }

// clientConfig reads the kubeconfig as kubectl does.
func (a *kubeAccess) clientConfig() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = a.file
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: a.context})
}

// rest is where the API server is and who we are.
func (a *kubeAccess) rest() (*rest.Config, error) {
	c, err := a.clientConfig().ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	c.UserAgent = fmt.Sprintf("shardsched/%s (%s/%s)", Version(), runtime.GOOS, runtime.GOARCH)
	c.WarningHandler = rest.NoWarnings{}
	return c, nil
}
