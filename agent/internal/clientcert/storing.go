package clientcert

import (
	"context"
	"fmt"
	"maps"
)

// load reads the store, and takes a credential from there that is better than the present one: at the start, or
// when another agent has renewed it.
func (k *Manager) load(ctx context.Context) error {
	contents, err := k.Store.Load(ctx)
	if err != nil {
		return err
	}
	k.contents = contents
	stored, found, err := contents.credential(k.Cluster)
	switch {
	case err != nil:
		k.setWaiting("", fmt.Sprintf("Ignoring the credential in %s: %v", k.Store, err))
		return nil
	case !found || k.present != nil && !stored.NotAfter.After(k.present.NotAfter):
		return nil
	case k.problem == nil && k.bootstrap.kind != stored.kind():
		k.setWaiting("", fmt.Sprintf("Ignoring the credential in %s: it is a %s, and the bootstrap kubeconfig is for a %s", k.Store, stored.kind(), k.bootstrap.kind))
		return nil
	}
	if k.server == nil {
		if k.server = serverOf(contents[kubeconfigKey]); k.server == nil {
			return fmt.Errorf("reading where the hub is: there is a credential in %s, but no server: %w", k.Store, k.problem)
		}
	}
	k.Log.Info("Using the stored credential", "store", k.Store.String(), "kind", string(stored.kind()), "expires", stored.NotAfter)
	k.take(stored, stored.NotBefore)
	return nil
}

// save stores the present credential, with what an agent needs that starts without a bootstrap kubeconfig.
func (k *Manager) save(ctx context.Context) error {
	kubeconfig, err := storedKubeconfig(k.server, k.present.kind())
	if err != nil {
		return err
	}
	contents := Contents{kubeconfigKey: kubeconfig, tokenKey: []byte(k.present.Token), certificateKey: k.present.Certificate, privateKeyKey: k.present.Key}
	if err := k.Store.Save(ctx, contents); err != nil {
		return err
	}
	k.contents, k.unsaved = contents, false
	return nil
}

// keep stores the key of a request before the request is made.
func (k *Manager) keep(ctx context.Context, pending []byte) error {
	contents := maps.Clone(k.contents)
	contents[pendingKey] = pending
	if err := k.Store.Save(ctx, contents); err != nil {
		if k.present == nil {
			return err
		}
		k.goOn(err)
	}
	k.contents = contents
	return nil
}

// goOn says that the store fails. An agent that has a credential works and renews without it: waiting for a store
// that stays away could cost it the way back to the hub.
func (k *Manager) goOn(err error) {
	k.setWaiting("", fmt.Sprintf("Going on without the store of the credential, trying again: %v", err))
}
