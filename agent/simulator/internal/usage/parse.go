package usage

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Resource is what is used.
type Resource struct {
	// examples end the sentence "want".
	examples string
	most     float64
}

// The resources, with the largest amount of each: cores and bytes.
var (
	CPU    = Resource{`"50%" of the request, "200m", "sine 100m..500m period 5m" or "curve 0s=100m 60s=400m"`, 1e6}
	Memory = Resource{`"50%" of the request, "200Mi", "sine 100Mi..500Mi period 5m" or "curve 0s=100Mi 60s=400Mi"`, 1 << 60}
)

// Bounds of a curve.
const (
	maxPercent   = 10_000
	maxPoints    = 1000
	maxQuantity  = 32
	minPeriod    = time.Second
	maxTime      = 365 * 24 * time.Hour
	repeatSuffix = "repeat"
)

// Parse reads a curve:
//
//	50%                              a share of what is requested
//	200m                             a quantity
//	sine 100m..500m period 5m        from the first to the second amount and back in each period
//	curve 0s=100m 60s=400m [repeat]  lines between amounts at times since the start; the last one stays, or the curve starts again
//
// Each amount is a share or a quantity.
func Parse(text string, what Resource) (*Curve, error) {
	curve, err := parse(strings.Fields(text), what)
	if err != nil {
		return nil, fmt.Errorf("want %s, got %q: %w", what.examples, shorten(text), err)
	}
	return curve, nil
}

// shorten keeps an error readable.
func shorten(text string) string {
	const most = 80
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

func parse(words []string, what Resource) (*Curve, error) {
	switch {
	case len(words) == 0:
		return nil, errors.New("it is empty")
	case words[0] == "sine":
		return parseSine(words[1:], what)
	case words[0] == "curve":
		return parsePoints(words[1:], what)
	case len(words) > 1:
		return nil, fmt.Errorf("text after %q", shorten(words[0]))
	}
	one, err := parseAmount(words[0], what)
	return &Curve{points: []point{{amount: one}}}, err
}

func parseSine(words []string, what Resource) (*Curve, error) {
	if len(words) != 3 || words[1] != "period" {
		return nil, errors.New(`a sine has two amounts and a period`)
	}
	lowText, highText, _ := strings.Cut(words[0], "..")
	low, lowErr := parseAmount(lowText, what)
	high, highErr := parseAmount(highText, what)
	period, periodErr := parseTime(words[2])
	if periodErr == nil && period < minPeriod {
		periodErr = fmt.Errorf("the period %q is less than %s", shorten(words[2]), minPeriod)
	}
	return &Curve{wave: wave{low: low, high: high, period: period}}, errors.Join(lowErr, highErr, periodErr)
}

func parsePoints(words []string, what Resource) (*Curve, error) {
	curve := &Curve{}
	if n := len(words); n > 0 && words[n-1] == repeatSuffix {
		curve.repeats, words = true, words[:n-1]
	}
	if len(words) == 0 || len(words) > maxPoints {
		return nil, fmt.Errorf("a curve has 1 to %d points, got %d", maxPoints, len(words))
	}
	for _, word := range words {
		timeText, amountText, found := strings.Cut(word, "=")
		if !found {
			return nil, fmt.Errorf("%q is not a time and an amount", shorten(word))
		}
		after, timeErr := parseTime(timeText)
		one, amountErr := parseAmount(amountText, what)
		if err := errors.Join(timeErr, amountErr); err != nil {
			return nil, err
		}
		if n := len(curve.points); n > 0 && after < curve.points[n-1].after {
			return nil, fmt.Errorf("time %s is before that of the point in front of it", shorten(timeText))
		}
		curve.points = append(curve.points, point{after: after, amount: one})
	}
	if curve.repeats && curve.points[len(curve.points)-1].after < minPeriod {
		return nil, fmt.Errorf("a curve that repeats lasts %s or more", minPeriod)
	}
	return curve, nil
}

func parseTime(text string) (time.Duration, error) {
	t, err := time.ParseDuration(text)
	if err != nil || t < 0 || t > maxTime {
		return 0, fmt.Errorf("%q is not a time from 0s to %s", shorten(text), maxTime)
	}
	return t, nil
}

// plainQuantity leaves out exponents: computing with a quantity of 1e-2000000 takes a minute.
var plainQuantity = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?([numkMGTPE]|[KMGTPE]i)?$`)

func parseAmount(text string, what Resource) (amount, error) {
	if len(text) > maxQuantity {
		return amount{}, fmt.Errorf("%q is too long for an amount", shorten(text))
	}
	if number, isShare := strings.CutSuffix(text, "%"); isShare {
		percent, err := strconv.ParseFloat(number, 64)
		if err != nil || strings.Trim(number, "0123456789.") != "" || percent > maxPercent {
			return amount{}, fmt.Errorf("%q is not a share from 0%% to %d%%", text, maxPercent)
		}
		return amount{share: percent / 100}, nil
	}
	if !plainQuantity.MatchString(text) {
		return amount{}, fmt.Errorf("%q is not a quantity", text)
	}
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return amount{}, fmt.Errorf("%q is not a quantity", text)
	}
	fixed := quantity.AsApproximateFloat64()
	if !(fixed >= 0 && fixed <= what.most) {
		return amount{}, fmt.Errorf("%q is not an amount from 0 to %g", text, what.most)
	}
	return amount{fixed: fixed}, nil
}
