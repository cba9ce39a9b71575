package inventory

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hasher replaces names by hashes. The same name has the same hash within one inventory, and another in the next one, because the salt is
// not kept: nobody can try names out.
type hasher struct{ salt []byte }

// hashName replaces a name, but for one that every cluster has.
func (h hasher) hashName(name string) string {
	if name == "" || name == corev1.NamespaceDefault || strings.HasPrefix(name, "kube-") || strings.HasPrefix(name, "system-") {
		return name
	}
	return h.hashValue(name)
}

// hashValue replaces a value of a label. It must be the hash of the name too: a label may have one.
func (h hasher) hashValue(value string) string {
	if value == "" {
		return ""
	}
	sum := hmac.New(sha256.New, h.salt)
	sum.Write([]byte(value))
	return "h" + hex.EncodeToString(sum.Sum(nil))[:11]
}

func (h hasher) hashValues(values []string) {
	for index := range values {
		values[index] = h.hashValue(values[index])
	}
}

func (h hasher) hashMap(labels map[string]string) {
	for key, value := range labels {
		labels[key] = h.hashValue(value)
	}
}

func (h hasher) hashSelector(selector *metav1.LabelSelector) {
	if selector == nil {
		return
	}
	for key, value := range selector.MatchLabels {
		if selector.MatchLabels[key] = h.hashValue(value); key == corev1.LabelMetadataName {
			selector.MatchLabels[key] = h.hashName(value)
		}
	}
	for index := range selector.MatchExpressions {
		one := &selector.MatchExpressions[index]
		if one.Key != corev1.LabelMetadataName {
			h.hashValues(one.Values)
			continue
		}
		for at := range one.Values {
			one.Values[at] = h.hashName(one.Values[at])
		}
	}
}

// HashNames replaces the names of Nodes, namespaces, workloads, budgets and PriorityClasses and the values of pod and namespace labels,
// wherever they stand. Keys of labels stay, and so do labels and taints of Nodes, but for their names: they are what pods are placed by.
func (i *Inventory) HashNames(salt []byte) {
	h := hasher{salt}
	i.NamesHashed = true
	hosts := map[string]string{}
	for index := range i.Nodes {
		node := &i.Nodes[index]
		hashed := h.hashName(node.Name)
		hosts[node.Name] = hashed
		if host, has := node.Labels[corev1.LabelHostname]; has {
			hosts[host] = h.hashValue(host)
			node.Labels[corev1.LabelHostname] = hosts[host]
		}
		node.Name = hashed
	}
	for index := range i.Namespaces {
		i.Namespaces[index].Name = h.hashName(i.Namespaces[index].Name)
		h.hashMap(i.Namespaces[index].Labels)
	}
	for index := range i.PriorityClasses {
		i.PriorityClasses[index].Name = h.hashName(i.PriorityClasses[index].Name)
	}
	for index := range i.Workloads {
		h.hashWorkload(&i.Workloads[index], hosts)
	}
	for index := range i.Budgets {
		one := &i.Budgets[index]
		one.Namespace, one.Name = h.hashName(one.Namespace), h.hashName(one.Name)
		h.hashSelector(one.Selector)
	}
	for index := range i.LeftOut.NotRead {
		what, _, _ := strings.Cut(i.LeftOut.NotRead[index], ":")
		i.LeftOut.NotRead[index] = what
	}
	i.Sort()
}

func (h hasher) hashWorkload(workload *Workload, hosts map[string]string) {
	workload.Namespace, workload.Name = h.hashName(workload.Namespace), h.hashName(workload.Name)
	h.hashSelector(workload.Selector)
	pod := &workload.Pod
	h.hashMap(pod.Labels)
	pod.PriorityClassName = h.hashName(pod.PriorityClassName)
	for _, term := range pod.affinityTerms() {
		h.hashSelector(term.LabelSelector)
		h.hashSelector(term.NamespaceSelector)
		for at := range term.Namespaces {
			term.Namespaces[at] = h.hashName(term.Namespaces[at])
		}
	}
	for index := range pod.TopologySpreadConstraints {
		h.hashSelector(pod.TopologySpreadConstraints[index].LabelSelector)
	}
	if host, has := pod.NodeSelector[corev1.LabelHostname]; has && hosts[host] != "" {
		pod.NodeSelector[corev1.LabelHostname] = hosts[host]
	}
	pod.eachNodeRequirement(func(one *corev1.NodeSelectorRequirement) {
		for at, value := range one.Values {
			if hashed, isHost := hosts[value]; isHost {
				one.Values[at] = hashed
			}
		}
	})
}

// eachNodeRequirement shows each requirement of the node affinity to see.
func (p *Pod) eachNodeRequirement(see func(*corev1.NodeSelectorRequirement)) {
	if p.Affinity == nil || p.Affinity.NodeAffinity == nil {
		return
	}
	var terms []*corev1.NodeSelectorTerm
	if required := p.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		for index := range required.NodeSelectorTerms {
			terms = append(terms, &required.NodeSelectorTerms[index])
		}
	}
	for index := range p.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		terms = append(terms, &p.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[index].Preference)
	}
	for _, term := range terms {
		for index := range term.MatchExpressions {
			see(&term.MatchExpressions[index])
		}
		for index := range term.MatchFields {
			see(&term.MatchFields[index])
		}
	}
}

// NodeLabelKeys are the keys of Node labels that the placement of a pod looks at.
func (p *Pod) NodeLabelKeys() (keys []string) {
	for key := range p.NodeSelector {
		keys = append(keys, key)
	}
	p.eachNodeRequirement(func(one *corev1.NodeSelectorRequirement) { keys = append(keys, one.Key) })
	for _, term := range p.affinityTerms() {
		keys = append(keys, term.TopologyKey)
	}
	for _, spread := range p.TopologySpreadConstraints {
		keys = append(keys, spread.TopologyKey)
	}
	return keys
}

// IsPinned reports whether a pod asks for one Node by its name or host name. Those of a rehearsal have other names.
func (p *Pod) IsPinned() bool {
	_, pinned := p.NodeSelector[corev1.LabelHostname]
	p.eachNodeRequirement(func(one *corev1.NodeSelectorRequirement) {
		pinned = pinned || one.Key == corev1.LabelHostname || one.Key == metav1.ObjectNameField
	})
	return pinned
}
