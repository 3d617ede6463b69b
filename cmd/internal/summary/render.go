package summary

import (
	"io"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Render writes s as text for people.
func Render(w io.Writer, s *pb.Summary, style Style) error {
	return nil
}

// JSON writes s as one indented JSON object.
func JSON(w io.Writer, s *pb.Summary) error {
	return nil
}
