package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	grafana "github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	. "github.com/onsi/gomega"
)

// checkSchema holds a dashboard against Grafana's schema, as Grafana's own library has it. Queries are looked at on their own: that library
// takes those without a data source of their own as they are.
func checkSchema(content []byte) error {
	var board struct {
		Panels []struct {
			Title, Type string
			Targets     []json.RawMessage
		}
	}
	schema := &grafana.Dashboard{} //nolint:staticcheck // Every Grafana reads this schema, and only new ones the next.
	if err := errors.Join(withProblems(schema.UnmarshalJSONStrict(content)), json.Unmarshal(content, &board)); err != nil {
		return err
	}
	for _, panel := range board.Panels {
		if panel.Type != "timeseries" {
			return fmt.Errorf("%s: panels of type %s are not checked: register the type", panel.Title, panel.Type)
		}
		for _, target := range panel.Targets {
			if err := withProblems((&prometheus.Dataquery{}).UnmarshalJSONStrict(target)); err != nil {
				return fmt.Errorf("%s: %w", panel.Title, err)
			}
		}
	}
	return nil
}

// withProblems returns an error of that library, which may be a list of no problems.
func withProblems(err error) error {
	var problems cog.BuildErrors
	if errors.As(err, &problems) && len(problems) == 0 {
		return nil
	}
	return err
}

// Claim: Dashboards are as Grafana's schema has them. Broken: a field misspelled in a panel; a number as a text; the list of annotations missing.
func TestDashboardsFollowGrafanasSchema(t *testing.T) {
	cog.NewRuntime().RegisterPanelcfgVariant(timeseries.VariantConfig())
	for _, o := range both {
		t.Run(o.name, func(t *testing.T) {
			g := NewWithT(t)
			content, err := os.ReadFile(filepath.Join(root, "charts", o.name, "files", "dashboard.json"))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(checkSchema(content)).To(Succeed())
			for right, wrong := range map[string]string{
				`"legendFormat"`: `"legendFromat"`, `"fieldConfig"`: `"fieldConfigs"`, `"h": 8`: `"h": "8"`, `"query": "prometheus"`: `"ask": "prometheus"`, `"annotations"`: `"annotation"`,
			} {
				text := strings.Replace(string(content), right, wrong, 1)
				g.Expect(text).NotTo(Equal(string(content)), right)
				g.Expect(checkSchema([]byte(text))).NotTo(Succeed(), wrong)
			}
		})
	}
}
