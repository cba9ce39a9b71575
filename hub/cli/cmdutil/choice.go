package cmdutil

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Choice adds a flag that takes one of values, or stays empty.
func Choice[T ~string](command *cobra.Command, target *T, flag, usage string, values ...T) {
	ChoiceP(command, target, flag, "", usage, values...)
}

// ChoiceP is Choice with a short form of the flag.
func ChoiceP[T ~string](command *cobra.Command, target *T, flag, short, usage string, values ...T) {
	c := &choice[T]{target: target, values: values}
	command.Flags().VarP(c, flag, short, usage)
	completeFlag(command, flag, c.valueTexts())
}

// completeFlag offers the values of a flag. Registering fails only for a flag that does not exist.
func completeFlag(command *cobra.Command, flag string, values []string) {
	if err := command.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}

// choice is a flag's value.
type choice[T ~string] struct {
	target *T
	values []T
}

func (c *choice[T]) valueTexts() []string {
	var texts []string
	for _, value := range c.values {
		texts = append(texts, string(value))
	}
	return texts
}

// String implements pflag.Value.
func (c *choice[T]) String() string { return string(*c.target) }

// Type implements pflag.Value: the help shows it.
func (c *choice[T]) Type() string { return strings.Join(c.valueTexts(), "|") }

// Set implements pflag.Value.
func (c *choice[T]) Set(text string) error {
	if !slices.Contains(c.values, T(text)) {
		return fmt.Errorf("want one of %s", strings.Join(c.valueTexts(), ", "))
	}
	*c.target = T(text)
	return nil
}
