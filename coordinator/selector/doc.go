// Package selector holds label selectors in one canonical form, and finds which of many
// match a set of labels.
//
//	Selector   requirements that must all hold; equal ones have the same Text
//	Index      selectors filed under one label that each of them demands
//	Sight      what the selectors of an index see of some labels
//
// A Selector is what upstream makes of a metav1.LabelSelector or of a plain map. Two
// written differently (k=v and k in (v), another order, a requirement twice) are the
// same here, so that they are counted once.
//
// # Index
//
//	                     by label             by key            the rest
//	app in (web, api)    app=web, app=api
//	tier=db,env=x        tier=db  (the rarer)
//	gpu                                       gpu
//	zone in (65 and more)                     zone
//	!legacy                                                     under "!legacy"
//	app notin (web), !old                                       under "app notin, !old"
//
// A set of labels meets only the selectors under its own labels and keys, and the few
// that demand nothing to be there. With ten thousand selectors, one for each workload,
// a pod is held against the one or two that may match.
//
// Selectors that demand nothing to be there stand together by keys and operators. Labels
// without any of the keys are matched by all of them, and labels with a key that must not be there by
// none: no selector is looked at. Only a key of a NotIn has each of them asked.
//
// Of a selector with many requirements, those on the labels' own keys are searched for: the labels are gone through, and not the
// requirements.
//
// To remove a value takes no search, however many there are.
//
// # Sight
//
// Pods of a StatefulSet or of a Job differ in labels that no selector looks at, or in
// values that none names. A Sight leaves these away: of each label whose key some
// selector names it keeps the value where one names that, too, else only that the label
// is there. Where a selector names more than 64 values of a key, the value is kept whatever it is: the
// index does not list them a second time. Labels with equal sights are matched by the same selectors, for as long as
// the index stays as it is; so answers are kept by sight.
package selector
