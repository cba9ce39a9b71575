package hollow

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
)

// jsonSchema is what config/schema says of a field.
type jsonSchema struct {
	Type       string
	Properties map[string]jsonSchema
	Enum       []string
	Minimum    *int64
	Maximum    *int64
	MaxLength  *int
}

// Claim: The schema for editors has the fields, values and bounds of the driver. Broken: a field that the driver lacks; another bound; a profile left out.
func TestTheSchemaHasWhatTheDriverTakes(t *testing.T) {
	g := NewWithT(t)
	text, err := os.ReadFile("../../../config/schema/hollownodeconfig.json")
	g.Expect(err).NotTo(HaveOccurred())
	schema := jsonSchema{}
	g.Expect(json.Unmarshal(text, &schema)).To(Succeed())
	checked := 0
	expectSameFields(g, schema, func(field string) string { return field }, &checked)
	expectSameFields(g, schema.Properties["kubelet"], func(field string) string { return `"kubelet":{` + field + `}` }, &checked)
	expectSameFields(g, schema.Properties["imagePull"], func(field string) string { return `"imagePull":{` + field + `}` }, &checked)
	g.Expect(checked).To(BeNumerically(">=", 12), "bounds and enumerations")
}

// expectSameFields compares the fields of an object; in writes a configuration that has one of them.
func expectSameFields(g *WithT, object jsonSchema, in func(field string) string, checked *int) {
	decode := func(name string, value any) error {
		text, err := json.Marshal(value)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = decodeConfig(&runtime.RawExtension{Raw: fmt.Appendf(nil, "{%s,%s}", head, in(fmt.Sprintf("%q:%s", name, text)))}, "c")
		return err
	}
	names := slices.Sorted(maps.Keys(object.Properties))
	g.Expect(names).NotTo(BeEmpty())
	unknown := decode("noSuchField", true)
	g.Expect(unknown).To(MatchError(HaveSuffix(" has " + strings.Join(names, ", "))))
	for name, field := range object.Properties {
		for _, value := range field.Enum {
			*checked++
			g.Expect(decode(name, value)).To(Succeed(), name)
			g.Expect(decode(name, value+"x")).NotTo(Succeed(), name)
		}
		if field.Minimum != nil {
			*checked++
			g.Expect(decode(name, *field.Minimum)).To(Succeed(), name)
			g.Expect(decode(name, *field.Minimum-1)).NotTo(Succeed(), name)
			g.Expect(decode(name, *field.Maximum)).To(Succeed(), name)
			g.Expect(decode(name, *field.Maximum+1)).NotTo(Succeed(), name)
		}
		if field.MaxLength != nil && field.Type == "string" {
			*checked++
			g.Expect(decode(name, strings.Repeat("x", *field.MaxLength))).To(Succeed(), name)
			g.Expect(decode(name, strings.Repeat("x", *field.MaxLength+1))).NotTo(Succeed(), name)
		}
	}
}
