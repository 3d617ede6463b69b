package shardschedv1

// RecordFormat is the only format of a record that there is.
const RecordFormat = 1

// Validate checks that a record says what happened, and to what.
func (x *Record) Validate() error {
	if err := instant("time", x.GetTime()); err != nil {
		return err
	}
	switch what := x.GetWhat().(type) {
	case *Record_Begin:
		if f := what.Begin.GetFormat(); f != RecordFormat {
			return wrong("begin.format", "expected %d, got %d", RecordFormat, f)
		}
	case *Record_Change:
		return in("change", what.Change.validate())
	case *Record_Decision:
		return in("decision", what.Decision.validate())
	case *Record_Bound:
		return in("bound", decided(what.Bound))
	case *Record_TakenBack:
		return in("taken_back", decided(what.TakenBack))
	case *Record_Released:
		return in("released", decided(what.Released))
	case *Record_Judgement:
		return in("judgement", what.Judgement.validate())
	case *Record_Nominated:
		return in("nominated", what.Nominated.validate())
	case *Record_End:
	default:
		return wrong("", "expected what happened, got nothing that is known")
	}
	return nil
}

func (x *RecordChange) validate() error {
	if err := kind("ref.kind", x.GetRef().GetKind()); err != nil {
		return err
	}
	return text("ref.name", x.GetRef().GetName(), maxText)
}

func (x *RecordNominated) validate() error {
	if x.GetUid() == "" {
		return wrong("uid", "expected a pod's UID, got none")
	}
	return text("node", x.GetNode(), maxText)
}

func (x *RecordDecision) validate() error {
	if x.GetDecision().GetUid() == "" {
		return wrong("decision.uid", "expected a pod's UID, got none")
	}
	return text("decision.node", x.GetDecision().GetNode(), maxText)
}

func (x *RecordJudgement) validate() error {
	if x.GetDecision().GetUid() == "" {
		return wrong("decision.uid", "expected a pod's UID, got none")
	}
	if err := text("decision.node", x.GetDecision().GetNode(), maxText); err != nil {
		return err
	}
	return text("node", x.GetNode(), maxText)
}

// decided checks what refers to a decision that had a node.
func decided(x interface {
	GetUid() string
	GetNode() string
}) error {
	if x.GetUid() == "" {
		return wrong("uid", "expected a pod's UID, got none")
	}
	if x.GetNode() == "" {
		return wrong("node", "expected a node's name, got none")
	}
	return nil
}
