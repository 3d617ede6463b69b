package store

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
)

const (
	// maxPageBytes keeps a page below the 4 MiB of a gRPC message.
	maxPageBytes = 3 << 20
	// maxPage is the most objects that a page holds.
	maxPage = 5000
	// DefaultPage is how many objects a page holds when nobody says.
	DefaultPage = 500
)

// ErrBadToken says that a continue token is none, or one of another list.
var ErrBadToken = errors.New("continue token is not one of this list")

// Item is an object as it is stored.
type Item struct {
	Ref      objects.Ref
	Raw      []byte
	Revision int64
}

// Page is a part of a list.
type Page struct {
	Items []Item
	// Continue asks for the next page; empty: this is the last.
	Continue string
	// Revision is that of the whole list: WatchRaw may continue after it.
	Revision int64
}

// List returns a page of the objects that sel selects, in the order of their keys, at the
// revision of the first page. limit 0 is DefaultPage; a page may hold fewer and not be the
// last. It returns ErrCompacted when the first page is too long ago.
func (s *Store) List(ctx context.Context, sel Selector, limit int, token string) (*Page, error) {
	prefix := s.keys.kind(sel.Kind, sel.Namespace)
	begin, revision, err := parseToken(token, prefix)
	if err != nil {
		return nil, err
	}
	if limit <= 0 {
		limit = DefaultPage
	}
	resp, err := s.client.Get(ctx, begin, clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)),
		clientv3.WithLimit(int64(min(limit, maxPage))), clientv3.WithRev(revision))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", prefix, readError(err))
	}
	if revision == 0 {
		revision = resp.Header.Revision
	}
	page := &Page{Revision: revision}
	size, more := 0, resp.More
	for _, kv := range resp.Kvs {
		size += len(kv.Value) + len(kv.Key)
		if size > maxPageBytes && len(page.Items) > 0 {
			more = true
			break
		}
		ref, err := s.keys.ref(string(kv.Key))
		if err != nil {
			return nil, err
		}
		page.Items = append(page.Items, Item{ref, kv.Value, kv.ModRevision})
	}
	if more {
		page.Continue = formatToken(prefix, s.keys.object(page.Items[len(page.Items)-1].Ref), revision)
	}
	return page, nil
}

// Get returns one object at the newest revision, or objects.ErrNotFound. The revision is returned
// with objects.ErrNotFound too.
func (s *Store) Get(ctx context.Context, ref objects.Ref) (item Item, revision int64, err error) {
	resp, err := s.client.Get(ctx, s.keys.object(ref))
	if err != nil {
		return Item{}, 0, fmt.Errorf("get %s: %w", ref, err)
	}
	if len(resp.Kvs) == 0 {
		return Item{}, resp.Header.Revision, fmt.Errorf("%s: %w", ref, objects.ErrNotFound)
	}
	kv := resp.Kvs[0]
	return Item{ref, kv.Value, kv.ModRevision}, resp.Header.Revision, nil
}

// Pod is the pod of a name at the newest revision; nil: there is none.
func (s *Store) Pod(ctx context.Context, namespace, name string) (*v1.Pod, error) {
	item, _, err := s.Get(ctx, objects.Ref{Kind: objects.KindPod, Namespace: namespace, Name: name})
	if errors.Is(err, objects.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	obj, err := objects.Decode(item.Raw)
	if err != nil {
		return nil, fmt.Errorf("stored pod %s/%s: %w", namespace, name, err)
	}
	p, _ := obj.(*v1.Pod)
	return p, nil
}

// Revision is the newest revision, with which a watch "from now on" begins.
func (s *Store) Revision(ctx context.Context) (int64, error) {
	resp, err := s.client.Get(ctx, s.keys.objects, clientv3.WithCountOnly())
	if err != nil {
		return 0, fmt.Errorf("newest revision: %w", err)
	}
	return resp.Header.Revision, nil
}

// A token is "<revision>/<rest of the last key>" in URL-safe base64.
func formatToken(prefix, last string, revision int64) string {
	rest := strings.TrimPrefix(last, prefix)
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(revision, 10) + "/" + rest))
}

func parseToken(token, prefix string) (begin string, revision int64, err error) {
	if token == "" {
		return prefix, 0, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", 0, ErrBadToken
	}
	number, rest, ok := strings.Cut(string(raw), "/")
	revision, err = strconv.ParseInt(number, 10, 64)
	if !ok || err != nil || revision <= 0 || rest == "" {
		return "", 0, ErrBadToken
	}
	return after(prefix + rest), revision, nil
}
