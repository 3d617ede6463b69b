// Proto makes Go code of the proto files, and holds their style: the rules of buf's category STANDARD. buf itself takes
// minutes to build from source, and this a few seconds: it is the same compiler, with the same plugins.
//
//	go run -modfile=.ci/tools.mod .ci/proto/main.go [OUT]    in the module's folder; OUT is proto, unless said otherwise
package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/protoutil"
	"github.com/bufbuild/protocompile/reporter"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/pluginpb"
)

const root = "proto"

func main() {
	out := root
	if len(os.Args) > 1 {
		out = os.Args[1]
	}
	if err := run(context.Background(), out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out string) error {
	var names []string
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".proto") {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	var wrong []string
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{root}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
		// An import that is not used is a warning.
		Reporter: reporter.NewReporter(nil, func(w reporter.ErrorWithPos) { wrong = append(wrong, w.Error()) }),
	}
	files, err := compiler.Compile(ctx, names...)
	if err != nil {
		return err
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: names, Parameter: proto.String("paths=source_relative")}
	seen := map[string]bool{}
	for _, f := range files {
		wrong = append(wrong, style(f)...)
		add(request, f, seen)
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%s", strings.Join(wrong, "\n"))
	}
	for _, plugin := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		if err := generate(ctx, plugin, request, out); err != nil {
			return fmt.Errorf("%s: %w", plugin, err)
		}
	}
	return nil
}

// add adds a file after those that it imports.
func add(request *pluginpb.CodeGeneratorRequest, f protoreflect.FileDescriptor, seen map[string]bool) {
	if seen[f.Path()] {
		return
	}
	seen[f.Path()] = true
	for i := range f.Imports().Len() {
		add(request, f.Imports().Get(i).FileDescriptor, seen)
	}
	request.ProtoFile = append(request.ProtoFile, protoutil.ProtoFromFileDescriptor(f))
}

func generate(ctx context.Context, plugin string, request *pluginpb.CodeGeneratorRequest, out string) error {
	in, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "tool", "-modfile=.ci/tools.mod", plugin)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	answer, err := cmd.Output()
	if err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(answer, &response); err != nil {
		return err
	}
	if response.Error != nil {
		return fmt.Errorf("%s", response.GetError())
	}
	for _, f := range response.File {
		path := filepath.Join(out, f.GetName())
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// checker gathers what breaks a rule of style in a file.
type checker struct {
	file  linker.File
	wrong []string
}

// style lists what breaks a rule.
func style(f linker.File) []string {
	c := &checker{file: f}
	name, pkg, folder := filepath.Base(f.Path()), string(f.Package()), filepath.Dir(f.Path())
	c.want(f, lowerSnake(strings.TrimSuffix(name, ".proto")), "a file name in lower_snake_case.proto")
	c.want(f, strings.ReplaceAll(pkg, ".", "/") == folder, "package "+strings.ReplaceAll(folder, "/", "."))
	c.want(f, versioned(pkg), "a package whose last part is a version, as v1")
	c.want(f, f.Syntax() == protoreflect.Proto3, `syntax = "proto3"`)
	for i := range f.Imports().Len() {
		c.want(f, !f.Imports().Get(i).IsPublic, "no public import")
	}
	c.messages(f.Messages())
	c.enums(f.Enums())
	for i := range f.Services().Len() {
		s := f.Services().Get(i)
		c.want(s, pascal(s.Name()) && strings.HasSuffix(string(s.Name()), "Service"), "PascalCase, ending with Service")
		for j := range s.Methods().Len() {
			m := s.Methods().Get(j)
			short, long := string(m.Name()), string(s.Name())+string(m.Name())
			c.want(m, pascal(m.Name()), "PascalCase")
			c.want(m, slices.Contains([]string{short + "Request", long + "Request"}, string(m.Input().Name())), "a request of its own, "+short+"Request")
			c.want(m, slices.Contains([]string{short + "Response", long + "Response"}, string(m.Output().Name())), "a response of its own, "+short+"Response")
		}
	}
	return c.wrong
}

func (c *checker) want(d protoreflect.Descriptor, holds bool, what string) {
	if !holds {
		at := c.file.SourceLocations().ByDescriptor(d)
		c.wrong = append(c.wrong, fmt.Sprintf("%s/%s:%d: %s: want %s", root, c.file.Path(), at.StartLine+1, d.FullName(), what))
	}
}

func (c *checker) messages(list protoreflect.MessageDescriptors) {
	for i := range list.Len() {
		m := list.Get(i)
		if m.IsMapEntry() {
			continue
		}
		c.want(m, pascal(m.Name()), "PascalCase")
		for j := range m.Fields().Len() {
			c.want(m.Fields().Get(j), lowerSnake(string(m.Fields().Get(j).Name())), "lower_snake_case")
		}
		for j := range m.Oneofs().Len() {
			o := m.Oneofs().Get(j)
			c.want(o, o.IsSynthetic() || lowerSnake(string(o.Name())), "lower_snake_case")
		}
		c.messages(m.Messages())
		c.enums(m.Enums())
	}
}

func (c *checker) enums(list protoreflect.EnumDescriptors) {
	for i := range list.Len() {
		e := list.Get(i)
		c.want(e, pascal(e.Name()), "PascalCase")
		prefix := upperSnake(string(e.Name())) + "_"
		numbers := map[protoreflect.EnumNumber]bool{}
		for j := range e.Values().Len() {
			v := e.Values().Get(j)
			name := string(v.Name())
			c.want(v, strings.HasPrefix(name, prefix) && strings.ToUpper(name) == name && lowerSnake(strings.ToLower(name)), prefix+"… in UPPER_SNAKE_CASE")
			c.want(v, (v.Number() == 0) == (name == prefix+"UNSPECIFIED"), prefix+"UNSPECIFIED for 0")
			c.want(v, !numbers[v.Number()], "a number of its own")
			numbers[v.Number()] = true
		}
	}
}

func versioned(pkg string) bool {
	last := pkg[strings.LastIndex(pkg, ".")+1:]
	return len(last) > 1 && last[0] == 'v' && strings.Trim(last[1:], "0123456789") == ""
}

func pascal(name protoreflect.Name) bool {
	return name[0] >= 'A' && name[0] <= 'Z' && !strings.Contains(string(name), "_")
}

func lowerSnake(name string) bool {
	return name != "" && strings.ToLower(name) == name && !strings.Contains(name, "__") && strings.Trim(name, "_") == name
}

// upperSnake makes UPPER_SNAKE_CASE of PascalCase; of letters in a row that are capitals the last begins a word.
func upperSnake(name string) string {
	var b strings.Builder
	capital := func(i int) bool { return i >= 0 && i < len(name) && name[i] >= 'A' && name[i] <= 'Z' }
	for i := range len(name) {
		if i > 0 && capital(i) && (!capital(i-1) || i+1 < len(name) && !capital(i+1)) {
			b.WriteByte('_')
		}
		b.WriteByte(name[i])
	}
	return strings.ToUpper(b.String())
}
