// Package joining lets a cluster join a hub: it makes the Cluster object and the credential with which the
// cluster's agent asks for one of its own. kubectl hollow cluster join and local fleets use it alike.
package joining

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// Acceptance says who lets the cluster join.
type Acceptance string

// The values of Acceptance.
const (
	// AcceptManual: a person does it later.
	AcceptManual Acceptance = "manual"
	// AcceptAuto: any client with the token joins.
	AcceptAuto Acceptance = "auto"
	// AcceptNow: it is accepted together with its creation.
	AcceptNow Acceptance = "now"
)

const (
	// undoTimeout bounds the clean-up after a failure.
	undoTimeout = 10 * time.Second
	// accountTimeout is how long the hub may take to make a ServiceAccount.
	accountTimeout = time.Minute
)

// Request is a wish to let a cluster join.
type Request struct {
	Cluster string
	// Accept, if set, is written to the Cluster. A new Cluster without it waits for a person.
	Accept Acceptance
	// Credential, if set, is written to the Cluster.
	Credential v1alpha1.CredentialType
	// Labels are added to those of the Cluster.
	Labels map[string]string
	// TokenTTL is how long the token is good for.
	TokenTTL time.Duration
	// Again lets a cluster that has joined get another token, because its agent has lost its credential.
	Again bool
	// Deliver hands the result over, if set. When it fails, the request has failed.
	Deliver func(*Result) error
}

// RefusedError is a request that the state of the Cluster does not allow. The message says what helps.
type RefusedError struct {
	Cluster string
	Reason  Refusal
}

// Refusal is why a cluster may not join.
type Refusal string

// The refusals.
const (
	AlreadyJoined Refusal = "has joined already"
	IsDenied      Refusal = "is denied"
	IsDeleting    Refusal = "is being deleted"
	NotAccepted   Refusal = "is not accepted, and only an accepted cluster has a ServiceAccount"
)

func (e *RefusedError) Error() string { return fmt.Sprintf("cluster %s %s", e.Cluster, e.Reason) }

// Objects are the Cluster and the token's Secret as they are to be created. They may as well be kept in a
// repository and applied from there.
func (r Request) Objects(token Token) (*v1alpha1.Cluster, *corev1.Secret) {
	cluster := &v1alpha1.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Name: r.Cluster},
		Spec:       v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptancePending, AcceptancePolicy: v1alpha1.AcceptanceManual},
	}
	r.applyTo(cluster)
	return cluster, token.Object(r.Cluster)
}

// applyTo writes what is set in r to cluster.
func (r Request) applyTo(cluster *v1alpha1.Cluster) {
	switch r.Accept {
	case AcceptManual:
		cluster.Spec.AcceptancePolicy = v1alpha1.AcceptanceManual
	case AcceptAuto:
		cluster.Spec.AcceptancePolicy = v1alpha1.AcceptanceAuto
	case AcceptNow:
		cluster.Spec.Acceptance = v1alpha1.AcceptanceAccepted
	}
	if r.Credential != "" {
		cluster.Spec.Credential = r.Credential
	}
	if len(r.Labels) > 0 {
		if cluster.Labels == nil {
			cluster.Labels = map[string]string{}
		}
		maps.Copy(cluster.Labels, r.Labels)
	}
}

// Result is what has been made.
type Result struct {
	Cluster *v1alpha1.Cluster
	// Created reports whether there was no such Cluster before.
	Created bool
	// Token is what the agent starts with, good until Expires.
	Token   string
	Expires time.Time
}

// undo takes a change back.
type undo func(context.Context) error

// Do creates or updates the Cluster and makes a token for its agent. When that fails, the Cluster is as it was
// and there is no token.
func (r Request) Do(ctx context.Context, c client.WithWatch, now time.Time) (*Result, error) {
	if err := CheckName(r.Cluster); err != nil {
		return nil, err
	}
	result := &Result{}
	var undos []undo
	for _, step := range []func(context.Context, client.WithWatch, *Result) (undo, error){
		r.ensureCluster,
		func(ctx context.Context, c client.WithWatch, result *Result) (undo, error) {
			if result.Cluster.Spec.Credential == v1alpha1.CredentialServiceAccountToken {
				return nil, r.serviceAccountToken(ctx, c, result)
			}
			return r.joinToken(ctx, c, result, now)
		},
		func(context.Context, client.WithWatch, *Result) (undo, error) {
			if r.Deliver == nil {
				return nil, nil
			}
			return nil, r.Deliver(result)
		},
	} {
		back, err := step(ctx, c, result)
		if err != nil {
			return nil, errors.Join(err, takeBack(context.WithoutCancel(ctx), undos))
		}
		if back != nil {
			undos = append(undos, back)
		}
	}
	return result, nil
}

// takeBack undoes what has been done, the last first.
func takeBack(ctx context.Context, undos []undo) error {
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	var problems []error
	for _, back := range slices.Backward(undos) {
		problems = append(problems, back(ctx))
	}
	return errors.Join(problems...)
}

// ensureCluster creates the Cluster, or writes what is asked for to the one that there is. The hub writes to
// Clusters as well, so a write that came too late is tried again on what is there now.
func (r Request) ensureCluster(ctx context.Context, c client.WithWatch, result *Result) (undo, error) {
	var back undo
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		cluster := &v1alpha1.Cluster{}
		err := c.Get(ctx, client.ObjectKey{Name: r.Cluster}, cluster)
		switch {
		case apierrors.IsNotFound(err):
			back, err = r.createCluster(ctx, c, result)
		case err != nil:
			err = fmt.Errorf("reading Cluster %s: %w", r.Cluster, err)
		default:
			back, err = r.changeCluster(ctx, c, cluster, result)
		}
		return err
	})
	return back, err
}

// changeCluster writes what is asked for to cluster, if it is not there yet.
func (r Request) changeCluster(ctx context.Context, c client.WithWatch, cluster *v1alpha1.Cluster, result *Result) (undo, error) {
	before := cluster.DeepCopy()
	r.applyTo(cluster)
	if err := r.checkAllowed(cluster); err != nil {
		return nil, err
	}
	result.Cluster = cluster
	if equality.Semantic.DeepEqual(before, cluster) {
		return nil, nil
	}
	if err := c.Patch(ctx, cluster, reconciler.MergeFromWithLock(before)); err != nil {
		return nil, fmt.Errorf("changing Cluster %s: %w", r.Cluster, err)
	}
	changed := cluster.DeepCopy()
	return func(ctx context.Context) error {
		restored := changed.DeepCopy()
		restored.Spec, restored.Labels = before.Spec, before.Labels
		if err := c.Patch(ctx, restored, client.MergeFrom(changed)); err != nil {
			return fmt.Errorf("taking the change of Cluster %s back: %w", r.Cluster, err)
		}
		return nil
	}, nil
}

func (r Request) createCluster(ctx context.Context, c client.WithWatch, result *Result) (undo, error) {
	cluster, _ := r.Objects(Token{})
	if err := r.checkAllowed(cluster); err != nil {
		return nil, err
	}
	if err := c.Create(ctx, cluster); err != nil {
		return nil, fmt.Errorf("creating Cluster %s: %w", r.Cluster, err)
	}
	result.Cluster, result.Created = cluster, true
	return func(ctx context.Context) error {
		if err := c.Delete(ctx, cluster, client.Preconditions{UID: &cluster.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting Cluster %s again: %w", r.Cluster, err)
		}
		return nil
	}, nil
}

// checkAllowed says whether cluster, with r applied to it, may get a token.
func (r Request) checkAllowed(cluster *v1alpha1.Cluster) error {
	refuse := func(reason Refusal) error { return &RefusedError{Cluster: cluster.Name, Reason: reason} }
	switch {
	case cluster.DeletionTimestamp != nil:
		return refuse(IsDeleting)
	case cluster.Spec.Acceptance == v1alpha1.AcceptanceDenied:
		return refuse(IsDenied)
	case !r.Again && meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ClusterJoinedCondition):
		return refuse(AlreadyJoined)
	case cluster.Spec.Credential == v1alpha1.CredentialServiceAccountToken && !cluster.Accepted():
		return refuse(NotAccepted)
	}
	return nil
}

func (r Request) joinToken(ctx context.Context, c client.WithWatch, result *Result, now time.Time) (undo, error) {
	if err := deleteExpired(ctx, c, r.Cluster, now); err != nil {
		return nil, err
	}
	token := NewToken(now.Add(r.TokenTTL))
	secret := token.Object(r.Cluster)
	// It is of no use to a Cluster of the same name that a user makes later.
	secret.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Cluster", Name: result.Cluster.Name, UID: result.Cluster.UID},
	}
	if err := c.Create(ctx, secret); err != nil {
		return nil, fmt.Errorf("creating the join token: %w", err)
	}
	result.Token, result.Expires = token.String(), token.Expires
	return func(ctx context.Context) error {
		if err := c.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting the join token again: %w", err)
		}
		return nil
	}, nil
}

// serviceAccountToken asks for a token of the ServiceAccount that the hub makes for an accepted cluster.
func (r Request) serviceAccountToken(ctx context.Context, c client.WithWatch, result *Result) error {
	ctx, cancel := context.WithTimeout(ctx, accountTimeout)
	defer cancel()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: r.Cluster, Name: v1alpha1.AgentServiceAccount}}
	if err := awaitAccount(ctx, c, account); err != nil {
		return err
	}
	seconds := int64(r.TokenTTL / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	if err := c.SubResource("token").Create(ctx, account, request); err != nil {
		return fmt.Errorf("asking for a token of ServiceAccount %s/%s: %w", account.Namespace, account.Name, err)
	}
	result.Token, result.Expires = request.Status.Token, request.Status.ExpirationTimestamp.Time
	return nil
}

// awaitAccount waits until the hub has made account or ctx is done.
func awaitAccount(ctx context.Context, c client.WithWatch, account *corev1.ServiceAccount) error {
	key := client.ObjectKeyFromObject(account)
	// A watch without a version starts with the objects that there are.
	watching, err := c.Watch(ctx, &corev1.ServiceAccountList{}, client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name})
	if err != nil {
		return fmt.Errorf("waiting for ServiceAccount %s: %w", key, err)
	}
	defer watching.Stop()
	for {
		select {
		case event, open := <-watching.ResultChan():
			if !open {
				return fmt.Errorf("waiting for ServiceAccount %s: the connection ended", key)
			}
			if made, ok := event.Object.(*corev1.ServiceAccount); ok && made.Name == key.Name {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("waiting for the hub to make ServiceAccount %s: is it running? (%w)", key, ctx.Err())
		}
	}
}
