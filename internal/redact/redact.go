// Package redact takes out of texts, such as logs, what looks like a credential. It finds what has a known form: tokens, passwords behind
// such a word, private keys, certificates in kubeconfigs. It is a net below, not a proof: who may read a log is decided elsewhere.
package redact

import "regexp"

// Mark is what stands where something was taken out.
const Mark = "[redacted]"

// patterns are what is replaced, and by what.
var patterns = []struct {
	found *regexp.Regexp
	by    string
}{
	// A private key, also one whose end is missing, or whose lines are written in one with \n.
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(-----END [A-Z0-9 ]*PRIVATE KEY-----|$)`), Mark},
	// The end of one that begins before the text does.
	{regexp.MustCompile(`(?s)\A.*?-----END [A-Z0-9 ]*PRIVATE KEY-----`), Mark},
	// The base64 of PEM, as kubeconfigs and Secrets have it.
	{regexp.MustCompile(`LS0tLS1CRUdJTi[A-Za-z0-9+/=_-]*`), Mark},
	// A JSON Web Token, as those of ServiceAccounts.
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(\.[A-Za-z0-9_-]*)?`), Mark},
	{regexp.MustCompile(`(?i)(authorization\\?["']?[ \t]*[:=][ \t]*\\?["']?(?:bearer|basic)[ \t]+)[A-Za-z0-9._~+/=-]+`), "${1}" + Mark},
	{regexp.MustCompile(`(?i)\b(bearer[ \t]+)[A-Za-z0-9._~+/=-]{16,}`), "${1}" + Mark},
	// A bootstrap token.
	{regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`), Mark},
	{regexp.MustCompile(`(?i)(client-key-data|[a-z_-]*token|token-secret|[a-z_-]*password|passwd|api[_-]?key|secret[_-]?key)(\\?["']?[ \t]*[:=][ \t]*\\?["']?)([^\s"'\\,;}&]+)`), "${1}${2}" + Mark},
	// The user in a URL.
	{regexp.MustCompile(`(://)[^/\s:@"']+:[^/\s@"']+@`), "${1}" + Mark + "@"},
}

// Text returns text without what looks like a credential.
func Text(text string) string {
	for _, pattern := range patterns {
		text = pattern.found.ReplaceAllString(text, pattern.by)
	}
	return text
}

// secretKey is a key whose value is a credential.
var secretKey = regexp.MustCompile(`(?i)(token|password|passwd|client-key-data|private[_.-]?key|tls\.key|api[_-]?key|secret[_-]?key)$`)

// Value returns a value as encoding/json decodes it, without what looks like a credential in its texts. It may change value.
func Value(value any) any {
	switch value := value.(type) {
	case string:
		return Text(value)
	case []any:
		for i := range value {
			value[i] = Value(value[i])
		}
	case map[string]any:
		for key, inner := range value {
			if text, is := inner.(string); is && text != "" && secretKey.MatchString(key) {
				value[key] = Mark
				continue
			}
			value[key] = Value(inner)
		}
	}
	return value
}
