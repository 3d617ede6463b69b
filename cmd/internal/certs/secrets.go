package certs

import (
	"fmt"
	"os"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// inPods are the uses whose certificates pods of deploy/ mount.
var inPods = []string{"coordinator", "worker", "metrics", "etcd", "coordinator-etcd", "worker-etcd"}

// Secrets are the certificates of uses as the manifests of deploy/ mount them: shardsched-USE-tls. Where no use is named, they are
// those that pods of deploy/ mount, without what people hold.
func (f Folder) Secrets(namespace string, uses ...string) ([]*v1.Secret, error) {
	if len(uses) == 0 {
		there, err := f.uses()
		if err != nil {
			return nil, err
		}
		uses = slices.DeleteFunc(there, func(use string) bool { return !slices.Contains(inPods, use) })
		if len(uses) == 0 {
			return nil, fmt.Errorf("%s: want certificates of pods in it, which create makes, got none", f.Dir)
		}
	}
	if _, err := f.List(uses...); err != nil {
		return nil, err
	}
	var secrets []*v1.Secret
	for _, use := range uses {
		s := &v1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Name: "shardsched-" + use + "-tls", Namespace: namespace},
			Type:       v1.SecretTypeTLS, Data: map[string][]byte{},
		}
		for _, file := range []string{caCert, leafCert, leafKey} {
			text, err := os.ReadFile(f.path(use, file))
			if err != nil {
				return nil, err
			}
			s.Data[file] = text
		}
		secrets = append(secrets, s)
	}
	return secrets, nil
}
