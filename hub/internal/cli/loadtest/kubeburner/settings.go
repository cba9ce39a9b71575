package kubeburner

import (
	"fmt"
	"strings"
	"time"
)

// settings are what a part of the configuration says. What is read is taken out, so that the rest can be named.
type settings struct {
	path string
	left map[string]any
}

// at is the path of a setting.
func (s settings) at(name string) string { return strings.TrimPrefix(s.path+"."+name, ".") }

func (s settings) take(name string) any {
	value := s.left[name]
	delete(s.left, name)
	return value
}

func (s settings) section(name string) settings {
	inner, _ := s.take(name).(map[string]any)
	if inner == nil {
		inner = map[string]any{}
	}
	return settings{s.at(name), inner}
}

func (s settings) list(name string) (list []settings) {
	items, _ := s.take(name).([]any)
	for i, item := range items {
		if inner, is := item.(map[string]any); is {
			list = append(list, settings{fmt.Sprintf("%s[%d]", s.at(name), i), inner})
		}
	}
	return list
}

func (s settings) text(name string) string {
	switch value := s.take(name).(type) {
	case nil:
		return ""
	case string:
		return value
	default:
		return fmt.Sprint(value)
	}
}

// number reads a number; one that is none is named.
func (s settings) number(name string, otherwise float64, c *conversion) float64 {
	switch value := s.take(name).(type) {
	case nil:
	case float64:
		return value
	default:
		c.note("%s: %v is no number: %v is used", s.at(name), value, otherwise)
	}
	return otherwise
}

func (s settings) truth(name string) (value, set bool) {
	value, set = s.take(name).(bool)
	return value, set
}

// duration reads a duration; one that is none is named.
func (s settings) duration(name string, c *conversion) time.Duration {
	text := s.text(name)
	if text == "" || text == "0" {
		return 0
	}
	value, err := time.ParseDuration(text)
	if err != nil || value < 0 {
		c.note("%s: %q is no duration", s.at(name), text)
		return 0
	}
	return value
}

func (s settings) peekText(name string) string {
	text, _ := s.left[name].(string)
	return text
}

func (s settings) peekNumber(name string, otherwise int) int {
	if number, is := s.left[name].(float64); is {
		return int(number)
	}
	return otherwise
}

func (s settings) peekFalse(name string) bool {
	value, set := s.left[name].(bool)
	return set && !value
}
