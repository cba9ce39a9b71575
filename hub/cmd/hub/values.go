package main

import (
	"errors"
	"math"
	"strconv"
	"time"
)

// seconds is the value of a flag that takes a duration of whole seconds.
type seconds int32

// Set implements pflag.Value.
func (s *seconds) Set(text string) error {
	duration, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	if duration < time.Second || duration%time.Second != 0 || duration > math.MaxInt32*time.Second {
		return errors.New("want whole seconds, 1s or more")
	}
	*s = seconds(duration / time.Second)
	return nil
}

// String implements pflag.Value.
func (s *seconds) String() string {
	if *s == 0 {
		return ""
	}
	return (time.Duration(*s) * time.Second).String()
}

// Type implements pflag.Value.
func (*seconds) Type() string { return "duration" }

// positive is the value of a flag that takes a number of 1 or more.
type positive int

// Set implements pflag.Value.
func (p *positive) Set(text string) error {
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 {
		return errors.New("want a number, 1 or more")
	}
	*p = positive(number)
	return nil
}

// String implements pflag.Value.
func (p *positive) String() string {
	if *p == 0 {
		return ""
	}
	return strconv.Itoa(int(*p))
}

// Type implements pflag.Value.
func (*positive) Type() string { return "int" }

// period is the value of a flag that takes a duration of more than 0s.
type period time.Duration

// Set implements pflag.Value.
func (p *period) Set(text string) error {
	duration, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	if duration <= 0 {
		return errors.New("want more than 0s")
	}
	*p = period(duration)
	return nil
}

// String implements pflag.Value.
func (p *period) String() string {
	if *p == 0 {
		return ""
	}
	return time.Duration(*p).String()
}

// Type implements pflag.Value.
func (*period) Type() string { return "duration" }
