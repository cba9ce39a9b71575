package main

import (
	"errors"
	"math"
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
