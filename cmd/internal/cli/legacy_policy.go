package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/config"
	"github.com/shardsched/shardsched/coordinator/config/policy"
)

// LegacyPolicy are flags that kube-scheduler had up to 1.22.
type LegacyPolicy struct {
	// File is a Policy; empty: none.
	File string
	// ConfigMap holds one under policy.ConfigMapKey; empty: none.
	ConfigMap, Namespace string
	// UseFile goes before the ConfigMap.
	UseFile bool
	// Provider is an algorithm provider; empty: none. A Policy goes before it.
	Provider string

	given func(flag string) bool
}

const (
	policyFileFlag      = "policy-config-file"
	policyConfigMapFlag = "policy-configmap"
	policyNamespaceFlag = "policy-configmap-namespace"
	usePolicyFileFlag   = "use-legacy-policy-config"
	providerFlag        = "algorithm-provider"
)

// policyFlags are all of them.
func policyFlags() []string {
	return []string{policyFileFlag, policyConfigMapFlag, policyNamespaceFlag, usePolicyFileFlag, providerFlag}
}

func (l *LegacyPolicy) addFlags(fs *pflag.FlagSet) {
	const instead = " Not together with --config."
	fs.StringVar(&l.File, policyFileFlag, "", "DEPRECATED: `FILE` with scheduler policy configuration. This file is used if policy "+
		"ConfigMap is not provided or --use-legacy-policy-config=true."+instead)
	fs.StringVar(&l.ConfigMap, policyConfigMapFlag, "", "DEPRECATED: `NAME` of the ConfigMap object that contains scheduler's policy "+
		"configuration. "+
		"It must exist in the system namespace before scheduler initialization if --use-legacy-policy-config=false. The config must be "+
		"provided as the value of an element in 'Data' map with the key='"+policy.ConfigMapKey+"'."+instead)
	fs.StringVar(&l.Namespace, policyNamespaceFlag, metav1.NamespaceSystem, "DEPRECATED: the `NAMESPACE` where policy ConfigMap is "+
		"located. The kube-system namespace will be used if this is not provided or is empty.")
	fs.BoolVar(&l.UseFile, usePolicyFileFlag, false, "DEPRECATED: when set to true, scheduler will ignore policy ConfigMap and uses "+
		"policy config file.")
	fs.StringVar(&l.Provider, providerFlag, "", "DEPRECATED: the scheduling algorithm provider to use, one of: "+
		strings.Join(policy.Providers(), " | ")+"."+instead)
	l.given = fs.Changed
}

// validate refuses flags that contradict each other; file is that of --config.
func (l *LegacyPolicy) validate(file string, standalone bool) error {
	for _, name := range policyFlags() {
		if file != "" && l.given(name) {
			return usagef("--%s and --config: a Policy would take the place of the file's profiles and extenders; "+
				"'shardsched convert policy' makes of it what belongs into the file", name)
		}
		if standalone && l.given(name) && (name == policyConfigMapFlag || name == policyNamespaceFlag) {
			return usagef("--%s: it means nothing with --standalone", name)
		}
	}
	if l.UseFile && l.File == "" {
		return usagef("--%s: required when --%s is true", policyFileFlag, usePolicyFileFlag)
	}
	if l.Namespace == "" {
		l.Namespace = metav1.NamespaceSystem
	}
	return nil
}

// completeLegacy puts a Policy in the place of the configuration's file, as the flags say.
func (o *CoordinatorOptions) completeLegacy() error {
	l := &o.Legacy
	if err := l.validate(o.Config, o.Standalone); err != nil {
		return err
	}
	switch {
	case l.UseFile || l.File != "" && l.ConfigMap == "":
		o.Configuration.legacy = func() (*policy.Policy, error) { return readPolicy(l.File) }
	case l.ConfigMap != "":
		o.Configuration.legacy = func() (*policy.Policy, error) {
			client, err := o.policyClient()
			if err != nil {
				return nil, err
			}
			return fetchPolicy(client, l.Namespace, l.ConfigMap)
		}
	case l.Provider != "":
		p, err := policy.Provider(l.Provider)
		if err != nil {
			return usagef("--%s: %w", providerFlag, err)
		}
		o.Configuration.legacy = func() (*policy.Policy, error) { return p, nil }
	}
	return nil
}

func readPolicy(file string) (*policy.Policy, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", policyFileFlag, err)
	}
	return policy.Parse(file, data)
}

// policyClient reaches the API server by the flags alone: there is no file beside a Policy.
func (o *CoordinatorOptions) policyClient() (clientset.Interface, error) {
	c, err := config.FromDefault(o.Kube.Changes(false)...)
	if err != nil {
		return nil, err
	}
	connection, err := o.Kube.REST(c.ClientConnection)
	if err != nil {
		return nil, err
	}
	return clientset.NewForConfig(connection)
}

// policyTimeout is how long the API server may take to give a ConfigMap.
const policyTimeout = 30 * time.Second

// fetchPolicy reads the Policy of a ConfigMap.
func fetchPolicy(client clientset.Interface, namespace, name string) (*policy.Policy, error) {
	ctx, cancel := context.WithTimeout(context.Background(), policyTimeout)
	defer cancel()
	what := fmt.Sprintf("ConfigMap %s/%s", namespace, name)
	m, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("couldn't get policy %s: %w (give the scheduler's user a Role with get on this ConfigMap: docs/policy.md)",
			what, err)
	}
	if err != nil {
		return nil, fmt.Errorf("couldn't get policy %s: %w", what, err)
	}
	text, ok := m.Data[policy.ConfigMapKey]
	if !ok {
		return nil, fmt.Errorf("policy %s: missing policy config map value at key %q", what, policy.ConfigMapKey)
	}
	return policy.Parse(what+" "+policy.ConfigMapKey, []byte(text))
}

// translate reads the Policy and makes a configuration of it.
func (o *Configuration) translate() (*config.Config, error) {
	p, err := o.legacy()
	if err != nil {
		return nil, err
	}
	if o.translated, err = policy.Translate(p, policy.Options{}); err != nil {
		return nil, err
	}
	return o.translated.Config(o.reader(), o.changes...)
}

// tellOfPolicy logs what a Policy came to: all of it for those who ask, and else what has no effect.
func tellOfPolicy(r *policy.Result) {
	log := klog.Background()
	var idle []string
	for _, n := range r.Notes {
		log.V(2).Info("Policy translated", "part", n.Part, "note", n.String())
		if n.Warning || len(n.Plugins) == 0 && !n.Implied {
			idle = append(idle, n.String())
		}
	}
	log.Info("A legacy scheduler policy is in use: 'shardsched convert policy' writes it as a KubeSchedulerConfiguration")
	tell(log, "Parts of the policy have no effect", "parts", idle)
}
