package kubeburner

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// settings are what a part of the configuration says. What is read is taken out, so that the rest can be named. A value of another
// type than the one that is wanted is named too.
type settings struct {
	c    *conversion
	path string
	left map[string]any
}

// pathOf is the path of a setting.
func (s settings) pathOf(name string) string { return strings.TrimPrefix(s.path+"."+name, ".") }

func (s settings) takeValue(name string) any {
	value := s.left[name]
	delete(s.left, name)
	return value
}

// noteWrongType notes a value that is not of the wanted type.
func (s settings) noteWrongType(name, wanted string, value any) {
	s.c.addNote(Changed, s.pathOf(name), "%v is not %s: kube-burner refuses it, and here it counts as not set", value, wanted)
}

func (s settings) readSection(name string) settings {
	value := s.takeValue(name)
	inner, isMap := value.(map[string]any)
	if !isMap {
		if value != nil {
			s.noteWrongType(name, "a map", value)
		}
		inner = map[string]any{}
	}
	return settings{s.c, s.pathOf(name), inner}
}

func (s settings) readList(name string) (list []settings) {
	value := s.takeValue(name)
	items, isList := value.([]any)
	if !isList && value != nil {
		s.noteWrongType(name, "a list", value)
	}
	for i, item := range items {
		at := fmt.Sprintf("%s[%d]", s.pathOf(name), i)
		if inner, isMap := item.(map[string]any); isMap {
			list = append(list, settings{s.c, at, inner})
		} else {
			s.c.addNote(LeftOut, at, "%v is not a map", item)
		}
	}
	return list
}

func (s settings) readText(name string) string {
	switch value := s.takeValue(name).(type) {
	case nil:
		return ""
	case map[string]any, []any:
		s.noteWrongType(name, "a text", value)
		return ""
	default:
		return plainText(value)
	}
}

func (s settings) readNumber(name string, otherwise float64) float64 {
	switch value := s.takeValue(name).(type) {
	case nil:
	case float64:
		return value
	default:
		s.noteWrongType(name, "a number", value)
	}
	return otherwise
}

// readCount reads a whole number.
func (s settings) readCount(name string, otherwise int) int {
	value := s.readNumber(name, float64(otherwise))
	const most = 1 << 30
	if value != float64(int(value)) || value > most {
		s.noteWrongType(name, "a whole number", value)
		return otherwise
	}
	return int(value)
}

func (s settings) readBool(name string, otherwise bool) bool {
	switch value := s.takeValue(name).(type) {
	case nil:
	case bool:
		return value
	default:
		s.noteWrongType(name, "true or false", value)
	}
	return otherwise
}

func (s settings) readDuration(name string) time.Duration {
	text := s.readText(name)
	if text == "" || text == "0" {
		return 0
	}
	value, err := time.ParseDuration(text)
	if err != nil || value < 0 {
		s.noteWrongType(name, "a duration such as 5m", text)
		return 0
	}
	return value
}

func (s settings) hasValue(name string) bool { return s.left[name] != nil }

// ofReports are settings of kube-burner's reports and preparations. They have no influence on the load.
var ofReports = []string{
	"alertProfile", "bearerToken", "esIndex", "gcMetrics", "gcTimeout", "indexerConfig", "metricsAggregate", "metricsClosing", "metricsDirectory", "metricsEndpoint",
	"metricsEndpoints", "metricsProfile", "pprofTargets", "preLoadImages", "preLoadNodeLabels", "preLoadPeriod", "preloadNodeLabels", "prometheusURL", "quantilesIndexer",
	"skipIndexing", "timeseriesIndexer", "writeToFile",
}

// nameRest names what was not read.
func (s settings) nameRest() {
	for _, name := range slices.Sorted(maps.Keys(s.left)) {
		if slices.Contains(ofReports, name) {
			s.c.addNote(Ignored, s.pathOf(name), "a LoadTest has no such setting")
		} else {
			s.c.addNote(Changed, s.pathOf(name), "a LoadTest has no such setting: the load is made without it")
		}
	}
}
