package v1alpha1_test

import (
	"testing"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestHeartbeatOfACluster(t *testing.T) {
	type beat = v1alpha1.Heartbeat
	tests := map[string]struct{ own, hub, want beat }{
		"nothing said":                    {beat{}, beat{10, 40}, beat{10, 40}},
		"all said":                        {beat{1, 4}, beat{10, 40}, beat{1, 4}},
		"a period alone":                  {beat{5, 0}, beat{10, 40}, beat{5, 40}},
		"a period beyond the hub's grace": {beat{60, 0}, beat{10, 40}, beat{60, 120}},
		"a grace alone":                   {beat{0, 90}, beat{10, 40}, beat{10, 90}},
		"a grace below the hub's period":  {beat{0, 8}, beat{10, 40}, beat{4, 8}},
		"the shortest grace":              {beat{0, 2}, beat{10, 40}, beat{1, 2}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.own.Or(test.hub); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestHeartbeatInForce(t *testing.T) {
	cluster := &v1alpha1.Cluster{}
	if got := cluster.Heartbeat(); got != v1alpha1.DefaultHeartbeat {
		t.Errorf("before the hub has spoken: got %+v", got)
	}
	cluster.Status.Heartbeat = &v1alpha1.Heartbeat{PeriodSeconds: 3, GraceSeconds: 9}
	if got := cluster.Heartbeat(); got != *cluster.Status.Heartbeat {
		t.Errorf("the hub's word counts: got %+v", got)
	}
}

func TestAcceptedCluster(t *testing.T) {
	tests := map[string]struct {
		acceptance v1alpha1.Acceptance
		policy     v1alpha1.AcceptancePolicy
		want       bool
	}{
		"pending":         {v1alpha1.AcceptancePending, v1alpha1.AcceptanceManual, false},
		"accepted":        {v1alpha1.AcceptanceAccepted, v1alpha1.AcceptanceManual, true},
		"by policy":       {v1alpha1.AcceptancePending, v1alpha1.AcceptanceAuto, true},
		"denied for good": {v1alpha1.AcceptanceDenied, v1alpha1.AcceptanceAuto, false},
		"not defaulted":   {"", "", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := &v1alpha1.Cluster{Spec: v1alpha1.ClusterSpec{Acceptance: test.acceptance, AcceptancePolicy: test.policy}}
			if got := cluster.Accepted(); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}
