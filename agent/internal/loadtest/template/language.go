package template

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"text/template/parse"
)

// mostRendered is how many bytes an object may have, as YAML and as JSON. An API server takes no more than 1.5 MiB.
const mostRendered = 1 << 20

// decisions are outcomes of comparisons and conditions, by where they are in a template.
type decisions map[*parse.PipeNode]bool

// comparisons are the functions that decide.
var comparisons = map[string]bool{"eq": true, "ne": true, "lt": true, "le": true, "gt": true, "ge": true}

// functions are those that a template may call.
var functions = map[string]func(args []any) (any, error){
	"eq":  func(args []any) (any, error) { return args[0] == args[1], nil },
	"ne":  func(args []any) (any, error) { return args[0] != args[1], nil },
	"lt":  onNumbers(func(a, b int64) (any, error) { return a < b, nil }),
	"le":  onNumbers(func(a, b int64) (any, error) { return a <= b, nil }),
	"gt":  onNumbers(func(a, b int64) (any, error) { return a > b, nil }),
	"ge":  onNumbers(func(a, b int64) (any, error) { return a >= b, nil }),
	"add": onNumbers(func(a, b int64) (any, error) { return a + b, nil }),
	"mod": onNumbers(func(a, b int64) (any, error) {
		if b == 0 {
			return nil, errors.New("division by 0")
		}
		return a % b, nil
	}),
	"div": onNumbers(func(a, b int64) (any, error) {
		if b == 0 {
			return nil, errors.New("division by 0")
		}
		return a / b, nil
	}),
}

func onNumbers(do func(a, b int64) (any, error)) func([]any) (any, error) {
	return func(args []any) (any, error) {
		a, isA := args[0].(int64)
		b, isB := args[1].(int64)
		if !isA || !isB {
			return nil, fmt.Errorf("%v and %v are not two numbers", args[0], args[1])
		}
		return do(a, b)
	}
}

// text is a parsed template. It has the syntax of text/template, but is carried out here: that package finds methods by their names
// at run time, and with it the linker keeps code that is never called, 20 MB of the agent.
type text struct{ root *parse.ListNode }

func parseText(name, content string) (text, error) {
	known := map[string]any{}
	for function := range functions {
		known[function] = true
	}
	trees, err := parse.Parse(name, content, "", "", known)
	if err != nil {
		return text{}, err
	}
	if len(trees) > 1 {
		return text{}, errors.New("define is not supported")
	}
	if trees[name] == nil || trees[name].Root == nil {
		return text{}, errors.New("there is nothing in it")
	}
	return text{trees[name].Root}, nil
}

// executeWith fills in values, and decides as forced says instead of as the values do.
func (t text) executeWith(forced decisions, values map[string]any) ([]byte, error) {
	e := evaluation{values: values, forced: forced}
	err := e.evaluateList(t.root)
	return e.out.Bytes(), err
}

// evaluation is one execution of a template.
type evaluation struct {
	values map[string]any
	forced decisions
	out    bytes.Buffer
}

func (e *evaluation) evaluateList(list *parse.ListNode) error {
	if list == nil {
		return nil
	}
	for _, node := range list.Nodes {
		if err := e.evaluateNode(node); err != nil {
			return err
		}
		if e.out.Len() > mostRendered {
			return fmt.Errorf("the object has more than %d bytes", mostRendered)
		}
	}
	return nil
}

func (e *evaluation) evaluateNode(node parse.Node) error {
	switch node := node.(type) {
	case *parse.TextNode:
		e.out.Write(node.Text)
	case *parse.CommentNode:
	case *parse.ActionNode:
		value, err := e.evaluatePipe(node.Pipe)
		if err != nil {
			return err
		}
		fmt.Fprint(&e.out, value)
	case *parse.IfNode:
		value, err := e.evaluatePipe(node.Pipe)
		if err != nil {
			return err
		}
		isTrue := value != any(false) && value != any("") && value != any(int64(0))
		if outcome, isForced := e.forced[node.Pipe]; isForced {
			isTrue = outcome
		}
		if isTrue {
			return e.evaluateList(node.List)
		}
		return e.evaluateList(node.ElseList)
	default:
		return fmt.Errorf("%s is not supported", node)
	}
	return nil
}

func (e *evaluation) evaluatePipe(pipe *parse.PipeNode) (any, error) {
	if len(pipe.Decl) > 0 || len(pipe.Cmds) != 1 {
		return nil, fmt.Errorf("%s is not supported: use no variables and no pipes", pipe)
	}
	args := pipe.Cmds[0].Args
	called, isCall := args[0].(*parse.IdentifierNode)
	if !isCall {
		if len(args) > 1 {
			return nil, fmt.Errorf("%s is not a function", args[0])
		}
		return e.evaluateValue(args[0])
	}
	if len(args) != 3 {
		return nil, fmt.Errorf("%s needs two arguments", called)
	}
	if outcome, isForced := e.forced[pipe]; isForced && comparisons[called.Ident] {
		return outcome, nil
	}
	var both []any
	for _, arg := range args[1:] {
		value, err := e.evaluateValue(arg)
		if err != nil {
			return nil, err
		}
		both = append(both, value)
	}
	value, err := functions[called.Ident](both)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pipe, err)
	}
	return value, nil
}

func (e *evaluation) evaluateValue(node parse.Node) (any, error) {
	switch node := node.(type) {
	case *parse.FieldNode:
		value, known := e.values[strings.Join(node.Ident, ".")]
		if !known {
			return nil, fmt.Errorf("unknown %s: use .Name, .Namespace, .Index, .Iteration or .Run", node)
		}
		return value, nil
	case *parse.NumberNode:
		if !node.IsInt {
			return nil, fmt.Errorf("%s is not a whole number", node)
		}
		return node.Int64, nil
	case *parse.StringNode:
		return node.Text, nil
	case *parse.BoolNode:
		return node.True, nil
	case *parse.PipeNode:
		return e.evaluatePipe(node)
	}
	return nil, fmt.Errorf("%s is not supported", node)
}

// decisionOutcomes are decisions in which each comparison comes out true once and false once: all of them, and each by itself.
func decisionOutcomes(deciding []*parse.PipeNode) []decisions {
	var sets []decisions
	for _, outcome := range []bool{true, false} {
		all := decisions{}
		for _, pipe := range deciding {
			all[pipe] = outcome
			sets = append(sets, decisions{pipe: outcome})
		}
		sets = append(sets, all)
	}
	return sets
}

// listDecisions are the conditions and comparisons of a template.
func (t text) listDecisions() []*parse.PipeNode {
	var found []*parse.PipeNode
	t.visitPipes(t.root, func(pipe *parse.PipeNode, isCondition bool) {
		if isCondition || comparisons[calledIn(pipe)] {
			found = append(found, pipe)
		}
	})
	return found
}

// callsFunctions reports whether a template calls a function.
func (t text) callsFunctions() bool {
	computes := false
	t.visitPipes(t.root, func(pipe *parse.PipeNode, _ bool) { computes = computes || calledIn(pipe) != "" })
	return computes
}

func calledIn(pipe *parse.PipeNode) string {
	if len(pipe.Cmds) == 1 && len(pipe.Cmds[0].Args) > 0 {
		if called, ok := pipe.Cmds[0].Args[0].(*parse.IdentifierNode); ok {
			return called.Ident
		}
	}
	return ""
}

// visitPipes calls see for each pipe.
func (t text) visitPipes(node parse.Node, see func(pipe *parse.PipeNode, isCondition bool)) {
	switch node := node.(type) {
	case *parse.ListNode:
		if node == nil {
			return
		}
		for _, inner := range node.Nodes {
			t.visitPipes(inner, see)
		}
	case *parse.ActionNode:
		t.visitPipe(node.Pipe, false, see)
	case *parse.IfNode:
		t.visitPipe(node.Pipe, true, see)
		t.visitPipes(node.List, see)
		t.visitPipes(node.ElseList, see)
	}
}

func (t text) visitPipe(pipe *parse.PipeNode, isCondition bool, see func(*parse.PipeNode, bool)) {
	see(pipe, isCondition)
	for _, command := range pipe.Cmds {
		for _, arg := range command.Args {
			if inner, ok := arg.(*parse.PipeNode); ok {
				t.visitPipe(inner, false, see)
			}
		}
	}
}
