package freeze

import "context"

type decidingKey struct{}

// Deciding returns a context for one decision and what follows from it. Once the agent has thawed after that, the
// Gate refuses every change with it: what was seen before a freeze is no ground to act on after it, however well
// things are by then. The thaw has the decision made anew.
func (m *Monitor) Deciding(ctx context.Context) context.Context {
	begun, _ := m.Thaw()
	return context.WithValue(ctx, decidingKey{}, func() error {
		thaw, at := m.Thaw()
		if thaw == begun {
			return nil
		}
		return &Error{Reason: "Outdated", Message: "this was decided before the last thaw, and has to be decided anew", Since: at}
	})
}

// outdated returns *Error if what was decided with ctx is from before the last thaw.
func outdated(ctx context.Context) error {
	if check, ok := ctx.Value(decidingKey{}).(func() error); ok {
		return check()
	}
	return nil
}
