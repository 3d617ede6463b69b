package cli

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
)

// apiServerSource is an API server, whose pods are added up page by page.
type apiServerSource struct {
	client   clientset.Interface
	selector string // of labels, of what is asked for
}

func newAPIServerSource(config *rest.Config, selector string) (*apiServerSource, error) {
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	config.QPS = -1 // pages follow each other
	c, err := clientset.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	return &apiServerSource{client: c, selector: selector}, nil
}

// nodes asks for the pods of the named nodes alone.
func (a *apiServerSource) nodes(ctx context.Context, names []string) ([]use, error) {
	var nodes []*v1.Node
	for _, o := range a.asked(names, "metadata.name", a.selector) {
		err := eachItem(ctx, a.client.CoreV1().Nodes().List, o, func(obj runtime.Object) { nodes = append(nodes, obj.(*v1.Node)) })
		if err != nil {
			return nil, err
		}
	}
	requested := requests{}
	for _, o := range a.asked(names, "spec.nodeName", "") {
		err := eachItem(ctx, a.client.CoreV1().Pods("").List, o, func(obj runtime.Object) { requested.add(obj.(*v1.Pod)) })
		if err != nil {
			return nil, err
		}
	}
	return requested.ofAll(nodes), nil
}

func (a *apiServerSource) pods(ctx context.Context, namespace string, names []string) (all []use, err error) {
	for _, o := range a.asked(names, "metadata.name", a.selector) {
		err := eachItem(ctx, a.client.CoreV1().Pods(namespace).List, o, func(obj runtime.Object) {
			all = append(all, usesOfPods([]*v1.Pod{obj.(*v1.Pod)})...)
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// asked are the lists to ask for: one for each name that a field has, or one of all that the selector chooses.
func (a *apiServerSource) asked(names []string, field, selector string) (lists []metav1.ListOptions) {
	for _, name := range names {
		lists = append(lists, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(field, name).String()})
	}
	if len(names) == 0 {
		lists = append(lists, metav1.ListOptions{LabelSelector: selector})
	}
	return lists
}

// eachItem lists in pages of 500.
func eachItem[L runtime.Object](ctx context.Context, list func(context.Context, metav1.ListOptions) (L, error), o metav1.ListOptions,
	each func(runtime.Object)) error {
	p := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, o) })
	return p.EachListItem(ctx, o, func(obj runtime.Object) error {
		each(obj)
		return nil
	})
}
