package identity

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
users: [{name: u, user: {USER}}]
`

// What a bootstrap kubeconfig says must not become a process of the machine that a podhost runs on.
// Claim: A bootstrap kubeconfig runs no program. Broken: code before the check.
func TestABootstrapKubeconfigRunsNoProgram(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	for name, user := range map[string]string{
		"exec":        `exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: /usr/bin/touch, args: ["` + ran + `"]}`,
		"exec, token": `token: t, exec: {apiVersion: client.authentication.k8s.io/v1beta1, interactiveMode: Never, command: /usr/bin/touch, args: ["` + ran + `"]}`,
		"a plugin":    `auth-provider: {name: oidc, config: {idp-issuer-url: "https://127.0.0.1:1"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "kubeconfig")
			if err := os.WriteFile(file, []byte(strings.Replace(kubeconfig, "USER", user, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := CheckBootstrap(file); err == nil || !strings.Contains(err.Error(), "use a token") {
				t.Errorf("the check says %v", err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := Join(ctx, Options{BootstrapKubeconfig: file, NodeName: "m1", Directory: t.TempDir()}); err == nil {
				t.Error("it joins")
			}
			if _, err := os.Stat(ran); err == nil {
				t.Error("the program has run")
			}
		})
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(strings.Replace(kubeconfig, "USER", "token: t", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := CheckBootstrap(file); err != nil {
		t.Errorf("a token is refused: %v", err)
	}
}
