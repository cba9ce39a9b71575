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

// at is the path of a setting.
func (s settings) at(name string) string { return strings.TrimPrefix(s.path+"."+name, ".") }

func (s settings) take(name string) any {
	value := s.left[name]
	delete(s.left, name)
	return value
}

// wrong notes a value that is not of the wanted type.
func (s settings) wrong(name, wanted string, value any) {
	s.c.note(Changed, s.at(name), "%v is not %s: kube-burner refuses it, and here it counts as not set", value, wanted)
}

func (s settings) section(name string) settings {
	value := s.take(name)
	inner, isMap := value.(map[string]any)
	if !isMap {
		if value != nil {
			s.wrong(name, "a map", value)
		}
		inner = map[string]any{}
	}
	return settings{s.c, s.at(name), inner}
}

func (s settings) list(name string) (list []settings) {
	value := s.take(name)
	items, isList := value.([]any)
	if !isList && value != nil {
		s.wrong(name, "a list", value)
	}
	for i, item := range items {
		at := fmt.Sprintf("%s[%d]", s.at(name), i)
		if inner, isMap := item.(map[string]any); isMap {
			list = append(list, settings{s.c, at, inner})
		} else {
			s.c.note(LeftOut, at, "%v is not a map", item)
		}
	}
	return list
}

func (s settings) text(name string) string {
	switch value := s.take(name).(type) {
	case nil:
		return ""
	case map[string]any, []any:
		s.wrong(name, "a text", value)
		return ""
	default:
		return plain(value)
	}
}

func (s settings) number(name string, otherwise float64) float64 {
	switch value := s.take(name).(type) {
	case nil:
	case float64:
		return value
	default:
		s.wrong(name, "a number", value)
	}
	return otherwise
}

// count reads a whole number.
func (s settings) count(name string, otherwise int) int {
	value := s.number(name, float64(otherwise))
	const most = 1 << 30
	if value != float64(int(value)) || value > most {
		s.wrong(name, "a whole number", value)
		return otherwise
	}
	return int(value)
}

func (s settings) truth(name string, otherwise bool) bool {
	switch value := s.take(name).(type) {
	case nil:
	case bool:
		return value
	default:
		s.wrong(name, "true or false", value)
	}
	return otherwise
}

func (s settings) duration(name string) time.Duration {
	text := s.text(name)
	if text == "" || text == "0" {
		return 0
	}
	value, err := time.ParseDuration(text)
	if err != nil || value < 0 {
		s.wrong(name, "a duration such as 5m", text)
		return 0
	}
	return value
}

func (s settings) has(name string) bool { return s.left[name] != nil }

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
			s.c.note(Ignored, s.at(name), "a LoadTest has no such setting")
		} else {
			s.c.note(Changed, s.at(name), "a LoadTest has no such setting: the load is made without it")
		}
	}
}
