package cli

import (
	"bytes"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"net"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/shardsched/shardsched/cmd/internal/certs"
	"github.com/shardsched/shardsched/cmd/internal/serving"
)

// How long certificates are good where nobody says: as kubeadm's.
const (
	certificateValidity = 365 * 24 * time.Hour
	authorityValidity   = 10 * certificateValidity
)

type certsOptions struct {
	certs.Folder
	domain, cluster, namespace, output string
	hosts                              []string
}

func newCertsCommand(s Streams) *cobra.Command {
	c := &cobra.Command{
		Use:     "certs",
		GroupID: groupOther,
		Short:   "Make and rotate an authority and certificates, where no cert-manager does",
		Long: `Make an authority in a folder, and the certificates that it signs: one for each role
of docs/security.md, or those of an etcd of your own. A key is replaced by renew and
rotate-ca only, and no process has to be restarted for either.

To change the authority: rotate-ca, and give ca.crt to all; then renew, and give
the certificates to all; an hour later retire-ca, and give ca.crt to all again.`,
		Example: `  shardsched certs create --dir pki --domain example.org
  shardsched certs show --dir pki -o yaml | kubectl apply -f -`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return usagef("name what to do: %[1]s create, create-etcd, renew, rotate-ca, retire-ca or show", c.CommandPath())
		},
	}
	c.AddCommand(newCertsCreateCommand(s), newCertsCreateEtcdCommand(s), newCertsRenewCommand(s), newCertsRotateCommand(s),
		newCertsRetireCommand(s), newCertsShowCommand(s))
	return c
}

func (o *certsOptions) addDir(c *cobra.Command) *pflag.FlagSet {
	fs := c.Flags()
	fs.StringVar(&o.Dir, "dir", "", "`FOLDER` of the authority, with one folder for each certificate")
	return fs
}

func (o *certsOptions) addTimes(fs *pflag.FlagSet) {
	fs.DurationVar(&o.Validity, "validity", certificateValidity, "how long a certificate is good")
	fs.DurationVar(&o.CAValidity, "ca-validity", authorityValidity, "how long an authority is good")
}

// at checks what all commands need, and takes the time.
func (o *certsOptions) at(fs *pflag.FlagSet) error {
	if o.Dir == "" {
		return usagef("--dir is required: the folder of the authority")
	}
	o.Now = time.Now()
	if fs.Lookup("validity") == nil {
		return nil
	}
	if o.Validity < time.Minute {
		return usagef("--validity: %s is shorter than a minute", o.Validity)
	}
	if o.CAValidity < o.Validity {
		return usagef("--ca-validity: %s is shorter than --validity, %s", o.CAValidity, o.Validity)
	}
	return nil
}

func (o *certsOptions) checkNamespace() error {
	if wrong := validation.IsDNS1123Label(o.namespace); len(wrong) > 0 {
		return usagef("--namespace: %q: %s", o.namespace, strings.Join(wrong, "; "))
	}
	return nil
}

// checkHosts takes what a certificate can have and a peer compares: neither a port nor a URL.
func (o *certsOptions) checkHosts() error {
	for _, host := range o.hosts {
		if net.ParseIP(host) == nil && len(validation.IsDNS1123Subdomain(strings.TrimPrefix(host, "*."))) > 0 {
			return usagef("--hosts: %q is neither an address nor a DNS name in lower case, such as etcd.example.org or *.etcd.svc", host)
		}
	}
	return nil
}

func newCertsCreateCommand(s Streams) *cobra.Command {
	var o certsOptions
	c := &cobra.Command{
		Use:   "create --dir FOLDER --domain DOMAIN",
		Short: "Make what is missing: an authority, and a certificate for each role",
		Long: `Make an authority, and a certificate for each role, with the names of docs/security.md.
What is there stays: an authority of your own can be put into the folder first, as
ca.crt and ca.key. A certificate that is there has to have the names that are asked for.`,
		Example: `  shardsched certs create --dir pki --domain example.org --namespace shardsched`,
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.at(c.Flags()); err != nil {
				return err
			}
			if err := serving.CheckIdentity(o.domain, o.cluster); err != nil {
				return usagef("--domain, --cluster: %w", err)
			}
			if err := validateCluster(o.cluster); err != nil {
				return err
			}
			if err := o.checkNamespace(); err != nil {
				return err
			}
			if err := o.checkHosts(); err != nil {
				return err
			}
			made, err := o.Create(pkix.Name{CommonName: "shardsched " + o.cluster}, certs.RoleUses(o.domain, o.cluster, o.namespace, o.hosts))
			return o.tell(s.Out, made, err)
		},
	}
	fs := o.addDir(c)
	fs.StringVar(&o.domain, "domain", "", "domain of the roles' URIs, spiffe://DOMAIN/shardsched/CLUSTER/ROLE: any name, the same for "+
		"all peers")
	fs.StringVar(&o.cluster, "cluster", defaultCluster, "name of the cluster, as coordinators and workers have it")
	fs.StringSliceVar(&o.hosts, "hosts", nil, "`HOST,...`: more DNS names and addresses by which coordinators and workers are dialled")
	fs.StringVar(&o.namespace, "namespace", "shardsched", "namespace of the Services by whose names coordinators and workers are dialled")
	o.addTimes(fs)
	return c
}

func newCertsCreateEtcdCommand(s Streams) *cobra.Command {
	var o certsOptions
	c := &cobra.Command{
		Use:   "create-etcd --dir FOLDER --hosts HOST,...",
		Short: "Make what is missing: an authority of an etcd, its certificate, and those of its users",
		Long: `Make an authority for an etcd of your own, a certificate for its members, and one for
each user of deploy/etcd/roles.sh, root among them, by their common names.`,
		Example: `  shardsched certs create-etcd --dir pki-etcd --hosts '*.etcd.etcd.svc,127.0.0.1'`,
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.at(c.Flags()); err != nil {
				return err
			}
			if len(o.hosts) == 0 {
				return usagef("--hosts is required: names and addresses by which etcd is dialled")
			}
			if err := o.checkHosts(); err != nil {
				return err
			}
			made, err := o.Create(pkix.Name{CommonName: "shardsched etcd"}, certs.EtcdUses(o.hosts))
			return o.tell(s.Out, made, err)
		},
	}
	fs := o.addDir(c)
	fs.StringSliceVar(&o.hosts, "hosts", nil, "`HOST,...`: DNS names and addresses by which etcd is dialled")
	o.addTimes(fs)
	return c
}

func newCertsRenewCommand(s Streams) *cobra.Command {
	var o certsOptions
	c := &cobra.Command{
		Use:     "renew --dir FOLDER [USE...]",
		Short:   "Replace certificates and their keys; their names stay",
		Example: "  shardsched certs renew --dir pki\n  shardsched certs renew --dir pki coordinator worker",
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.at(c.Flags()); err != nil {
				return err
			}
			made, err := o.Renew(args...)
			return o.tell(s.Out, made, err)
		},
	}
	fs := o.addDir(c)
	o.addTimes(fs)
	return c
}

func newCertsRotateCommand(s Streams) *cobra.Command {
	var o certsOptions
	c := &cobra.Command{
		Use:   "rotate-ca --dir FOLDER",
		Short: "Begin to change the authority: make another, and trust both",
		Long: `Make another authority, and trust both. Certificates stay those of the one before, whose
key is gone; the next renew has them signed by the new one. Until then give ca.crt to
every process.`,
		Example: `  shardsched certs rotate-ca --dir pki`,
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.at(c.Flags()); err != nil {
				return err
			}
			return o.tell(s.Out, nil, o.Rotate())
		},
	}
	fs := o.addDir(c)
	o.addTimes(fs)
	return c
}

func newCertsRetireCommand(s Streams) *cobra.Command {
	var o certsOptions
	c := &cobra.Command{
		Use:   "retire-ca --dir FOLDER",
		Short: "End the change of the authority: trust the new one alone",
		Long: `Trust the new authority alone. Certificates of the folder that the one before has
signed have to be renewed first. Wait an hour after the last of them was given out: so
long a connection lives.`,
		Example: `  shardsched certs retire-ca --dir pki`,
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.at(c.Flags()); err != nil {
				return err
			}
			return o.tell(s.Out, nil, o.Retire())
		},
	}
	o.addDir(c)
	return c
}

func newCertsShowCommand(s Streams) *cobra.Command {
	var o certsOptions
	c := &cobra.Command{
		Use:   "show --dir FOLDER [USE...]",
		Short: "List certificates and when they end, or print Kubernetes Secrets",
		Long: `List the authorities and the certificates of a folder, with their names and ends. With
-o yaml print certificates and keys as the Secrets that the manifests of deploy/ mount,
shardsched-USE-tls: of pods, or of the uses that are named.`,
		Example: `  shardsched certs show --dir pki
  shardsched certs show --dir pki -o yaml | kubectl apply -f -`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.at(c.Flags()); err != nil {
				return err
			}
			if err := oneOf("output", o.output, "text", "yaml"); err != nil {
				return err
			}
			if err := o.checkNamespace(); err != nil {
				return err
			}
			if o.output == "yaml" {
				return o.writeSecrets(s.Out, args)
			}
			all, err := o.List(args...)
			return o.tell(s.Out, all, err)
		},
	}
	fs := o.addDir(c)
	addOutputFlag(fs, &o.output, "text", "yaml")
	fs.StringVar(&o.namespace, "namespace", "shardsched", "namespace of the Secrets")
	return c
}

func (o *certsOptions) writeSecrets(out io.Writer, uses []string) error {
	secrets, err := o.Secrets(o.namespace, uses...)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	for i, secret := range secrets {
		if i > 0 {
			b.WriteString("---\n")
		}
		text, err := yaml.Marshal(secret)
		if err != nil {
			return err
		}
		b.Write(text)
	}
	_, err = out.Write(b.Bytes())
	return err
}

// tell lists the authorities, the one that signs first, and certificates.
func (o *certsOptions) tell(out io.Writer, entries []certs.Entry, err error) error {
	if err != nil {
		return err
	}
	trusted, err := o.Trusted()
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "USE\tENDS\tNAMES")
	for i, c := range trusted {
		use := "authority"
		if i > 0 {
			use = "authority before"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", use, c.NotAfter.UTC().Format(time.RFC3339), c.Subject.CommonName)
	}
	for _, e := range entries {
		fmt.Fprintf(w, "%s\t%s\t%s\n", e.Use, e.Certificate.NotAfter.UTC().Format(time.RFC3339), strings.Join(certs.Names(e.Certificate), " "))
	}
	return w.Flush()
}
