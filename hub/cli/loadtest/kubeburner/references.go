package kubeburner

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// named are the objects that documents make in the first namespace, by what kube-burner calls them.
type named map[objectKey]place

type objectKey struct{ namespace, kind, name string }

// place is an object of a document.
type place struct {
	of    *document
	index int
}

// linkReferences lets objects be named as a LoadTest calls them. A document that names an object which is left out, or one of a number that
// no expression gives, is left out too: its pods would wait for that forever.
func (c *conversion) linkReferences(all []*document) {
	names := c.collectNames(all)
	for _, d := range all {
		d.linkTo(names)
	}
	for again := true; again; {
		again = false
		for _, d := range all {
			for _, needed := range d.needs {
				if d.refused == "" && needed.refused != "" {
					d.refuseDocument("%s names a %s of %s, and that is left out", d.file, needed.kind, needed.file)
					again = true
				}
			}
		}
	}
}

// collectNames finds what kube-burner calls the objects of documents. Those of one name are one object there.
func (c *conversion) collectNames(all []*document) named {
	names := named{}
	for _, d := range all {
		if d.name == nil {
			continue
		}
		again := 0
		for index := range d.countPerNamespace() {
			key := objectKey{d.namespaceOf(d.kind), d.kind, d.fillForIndex(d.text[d.name.from:d.name.to], index)}
			if _, taken := names[key]; taken {
				again++
				continue
			}
			names[key] = place{d, index}
		}
		if again > 0 && d.refused == "" {
			c.addNote(Changed, d.path, "%d of %d objects of %s in each namespace have the name of another one, so that kube-burner does not make them: here all are made", again, d.countPerNamespace(), d.file)
		}
	}
	return names
}

// namespaceOf is where kube-burner makes objects of a kind for the job.
func (d *document) namespaceOf(kind string) string {
	if slices.Contains(ofNoNamespace, kind) {
		return ""
	}
	return d.job.namespace
}

// linkTo writes the names that objects have in the LoadTest into the document.
func (d *document) linkTo(names named) {
	for _, one := range d.listScalars() {
		kind := d.namedKind(one)
		if kind == "" {
			continue
		}
		found := make([]*place, d.countPerNamespace())
		var target *document
		for index := range found {
			at, is := names[objectKey{d.namespaceOf(kind), kind, d.fillForIndex(d.text[one.from:one.to], index)}]
			if !is {
				continue // What kube-burner does not make is missing there too, or is of the cluster.
			}
			if target != nil && target != at.of {
				d.refuseDocument("%s names %s of %s and of %s at %s, which a LoadTest cannot", d.file, kind, target.file, at.of.file, strings.Join(one.keys, "."))
				return
			}
			target, found[index] = at.of, &at
		}
		if target == nil {
			continue
		}
		if target != d {
			d.needs = append(d.needs, target)
		}
		number, is := d.numberOf(found, target)
		if !is {
			d.refuseDocument("%s names the %s %s at %s: no expression of a LoadTest gives the number of that object", d.file, kind, d.text[one.from:one.to], strings.Join(one.keys, "."))
			return
		}
		d.edits = append(d.edits, edit{one.from, one.to, target.template + "-" + number})
	}
	if d.name != nil {
		d.edits = append(d.edits, edit{d.name.from, d.name.to, "{{.Name}}"})
	}
	slices.SortFunc(d.edits, func(a, b edit) int { return a.from - b.from })
	// The name may be a reference too, in a kind that is not known.
	d.edits = slices.CompactFunc(d.edits, func(a, b edit) bool { return a.from == b.from })
}

// numberOf finds an expression for the index of the objects that are named, by that of those which name them.
func (d *document) numberOf(found []*place, target *document) (string, bool) {
	type candidate struct {
		text string
		of   func(index int) int
	}
	candidates := []candidate{{"{{.Index}}", func(index int) int { return index }}}
	for _, at := range found {
		if at != nil {
			constant := at.index
			candidates = append(candidates, candidate{fmt.Sprint(constant), func(int) int { return constant }})
			break
		}
	}
	for _, by := range []int{d.replicas, target.replicas, target.countPerNamespace(), d.iterations} {
		candidates = append(candidates,
			candidate{fmt.Sprintf("{{mod .Index %d}}", by), func(index int) int { return index % by }},
			candidate{fmt.Sprintf("{{div .Index %d}}", by), func(index int) int { return index / by }})
	}
	for _, one := range candidates {
		fits := true
		for index, at := range found {
			fits = fits && (at == nil || at.index == one.of(index))
		}
		if fits {
			return one.text, true
		}
	}
	return "", false
}

// namedKind is the kind of the object that a value of a template names; empty if it names none that the API server or a controller
// looks up.
func (d *document) namedKind(s *scalar) string {
	switch s.nthKey(0) {
	case "secretName":
		return "Secret"
	case "claimName":
		return "PersistentVolumeClaim"
	case "serviceAccountName", "serviceAccount":
		return "ServiceAccount"
	case "serviceName":
		return "Service"
	case "volumeName":
		return "PersistentVolume"
	case "storageClassName":
		return "StorageClass"
	case "priorityClassName":
		return "PriorityClass"
	case "runtimeClassName":
		return "RuntimeClass"
	case "ingressClassName":
		return "IngressClass"
	case "name":
		return d.kindOfName(s)
	}
	return ""
}

func (d *document) kindOfName(s *scalar) string {
	switch s.nthKey(1) {
	case "secretKeyRef", "secretRef", "secret", "imagePullSecrets":
		return "Secret"
	case "configMapKeyRef", "configMapRef", "configMap":
		return "ConfigMap"
	case "service":
		return "Service"
	case "scaleTargetRef", "targetRef", "roleRef", "subjects", "dataSource", "dataSourceRef", "ownerReferences":
		return d.textBeside(s, "kind")
	}
	return ""
}

// wordOfName is what a name may be part of, such as the host in a URL.
var wordOfName = regexp.MustCompile(`[A-Za-z0-9-]+`)

// findMentions are names of Services in the texts of a document, such as the arguments of its containers, that nothing looks up.
func (d *document) findMentions(names named) (found []string) {
	for _, one := range d.listScalars() {
		switch one.nthKey(0) {
		case "args", "command", "value", "host", "url":
		default:
			continue
		}
		for _, word := range wordOfName.FindAllString(d.fillForIndex(d.text[one.from:one.to], 0), -1) {
			if _, is := names[objectKey{d.job.namespace, "Service", word}]; is && !slices.Contains(found, word) {
				found = append(found, word)
			}
		}
	}
	return found
}
