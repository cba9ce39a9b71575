// Package template makes the objects of a load test run from its templates, which are text that a user of the hub wrote.
//
//	Check            once, before the first request: parses the text (language.go), renders what is going to be created and each branch,
//	                 and adds up what that takes in etcd (stored.go)
//	Template.Object  for each request: text (language.go) → YAML (yaml.go) → no larger than what Check has seen → kept within the
//	                 namespaces of the run (package confine)
package template
