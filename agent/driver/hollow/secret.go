package hollow

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// writeSecret makes or renews a Machine's Secret, with a fresh bootstrap token.
func (d *Driver) writeSecret(ctx context.Context, machine string, want desired) error {
	secret, err := d.readSecret(ctx, machine)
	if err != nil {
		return err
	}
	tainted, err := d.registersTainted(ctx, secret, want)
	if err != nil {
		return err
	}
	if tainted {
		want.configuration.Taints = withHollowTaint(want.configuration.Taints)
	}
	fresh, err := mint(ctx, d.environment.Target.Client, d.environment.Target.Namespace)
	if err != nil {
		return err
	}
	file, err := hollownode.Marshal(want.configuration)
	if err != nil {
		return fmt.Errorf("writing the configuration of the hollow-node: %w", err)
	}
	kubeconfig, err := bootstrapKubeconfig(d.options.ServerURL, d.options.ServerCA, fresh.token)
	if err != nil {
		return err
	}
	written := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: d.environment.Host.Namespace, Name: machine}}
	if secret != nil {
		written = secret.DeepCopy()
	}
	written.Labels = objectLabels(d.environment.ClusterName, machine)
	written.Annotations = map[string]string{
		tokenIDsAnnotation:    withTokenID(secret, fresh.id),
		tokenExpiryAnnotation: fresh.expiry.UTC().Format(time.RFC3339),
		hollowTaintAnnotation: strconv.FormatBool(tainted),
	}
	written.Data = map[string][]byte{
		hollownode.ConfigFileName:              file,
		hollownode.BootstrapKubeconfigFileName: kubeconfig,
	}
	if secret == nil {
		err = d.environment.Host.Client.Create(ctx, written)
	} else {
		err = d.environment.Host.Client.Update(ctx, written)
	}
	if err != nil {
		return fmt.Errorf("writing secret %s/%s: %w", written.Namespace, written.Name, err)
	}
	d.expiries.set(machine, fresh.expiry)
	return nil
}

// readSecret returns a Machine's Secret, nil if there is none. One that is not this cluster's is an error.
func (d *Driver) readSecret(ctx context.Context, machine string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: d.environment.Host.Namespace, Name: machine}
	if err := d.environment.Host.Reader.Get(ctx, key, secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("getting secret %s: %w", key, err)
	}
	if err := d.checkOwnership(secret, "secret"); err != nil {
		return nil, err
	}
	return secret, nil
}

// checkOwnership reports an object of the host that has a Machine's name and is not of this cluster, as *driver.NameConflictError.
func (d *Driver) checkOwnership(object client.Object, kind string) error {
	cluster := object.GetLabels()[v1alpha1.ClusterNameLabel]
	if cluster == d.environment.ClusterName {
		return nil
	}
	if !madeByAgent(object) {
		return &driver.NameConflictError{Foreign: true, Problem: fmt.Sprintf(
			"a %s named %s/%s exists and was not created by an agent: delete the Machine and create it with another name, or remove the %s",
			kind, object.GetNamespace(), object.GetName(), kind)}
	}
	return &driver.NameConflictError{Problem: fmt.Sprintf("%s %s/%s is not of cluster %q (label %s is %q): give each cluster a host namespace of its own",
		kind, object.GetNamespace(), object.GetName(), d.environment.ClusterName, v1alpha1.ClusterNameLabel, cluster)}
}

// madeByAgent reports whether an object looks like one that an agent made, of whatever cluster. One that may be this cluster's own,
// and whose label somebody has changed, is never taken for foreign: then its Machine would go and leave it behind.
func madeByAgent(object client.Object) bool {
	for _, key := range []string{configurationHashAnnotation, tokenIDsAnnotation} {
		if _, found := object.GetAnnotations()[key]; found {
			return true
		}
	}
	_, labelled := object.GetLabels()[v1alpha1.MachineNameLabel]
	return labelled
}

// isForeign reports whether err is of an object that no agent made.
func isForeign(err error) bool {
	var conflict *driver.NameConflictError
	return errors.As(err, &conflict) && conflict.Foreign
}

const (
	// tokenLifetime is the shortest that the API server grants.
	tokenLifetime = 10 * time.Minute
	// refreshBefore is how long before its expiry a token is replaced: long enough for the new one to reach
	// a running pod, which takes a kubelet up to two minutes.
	refreshBefore = 4 * time.Minute
	// keptTokenIDs is how many tokens may ask for a Node's identity. The hollow-node may have asked with the
	// one before just when it was replaced.
	keptTokenIDs = 2
)

// credential is a bootstrap token.
type credential struct {
	token  string
	id     string
	expiry time.Time
}

// mint asks the target cluster for a bootstrap token.
func mint(ctx context.Context, target client.Client, namespace string) (credential, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: BootstrapServiceAccount}}
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(tokenLifetime.Seconds()))},
	}
	if err := target.SubResource("token").Create(ctx, account, request); err != nil {
		return credential{}, fmt.Errorf("requesting a token of ServiceAccount %s/%s: %w", namespace, BootstrapServiceAccount, err)
	}
	id, err := tokenID(request.Status.Token)
	if err != nil {
		return credential{}, err
	}
	return credential{token: request.Status.Token, id: id, expiry: request.Status.ExpirationTimestamp.Time}, nil
}

// tokenID reads the ID (jti) of a token that the API server has just issued; its signature needs no check.
func tokenID(token string) (string, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", fmt.Errorf("reading the ID of a bootstrap token: want 3 parts, got %d", len(parts))
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return "", fmt.Errorf("reading the ID of a bootstrap token: %w", err)
	}
	var claims struct {
		ID string `json:"jti"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		return "", fmt.Errorf("reading the ID of a bootstrap token: %w", err)
	}
	if claims.ID == "" {
		return "", fmt.Errorf("the API server issued a token without an ID, so requests cannot be tied to their machines: use Kubernetes 1.30 or newer")
	}
	return claims.ID, nil
}

// tokenIDs returns the IDs of the bootstrap tokens that may ask for the identity of the Node whose Machine
// secret belongs to.
func tokenIDs(secret *corev1.Secret) []string {
	return strings.FieldsFunc(secret.Annotations[tokenIDsAnnotation], func(r rune) bool { return r == ',' })
}

// withTokenID puts id before the IDs that secret has, and drops those that are too old.
func withTokenID(secret *corev1.Secret, id string) string {
	ids := []string{id}
	if secret != nil {
		ids = append(ids, slices.DeleteFunc(tokenIDs(secret), func(old string) bool { return old == id })...)
	}
	return strings.Join(ids[:min(len(ids), keptTokenIDs)], ",")
}

// expiryOf returns when secret's token expires; the zero time if it does not say.
func expiryOf(secret *corev1.Secret) time.Time {
	expiry, err := time.Parse(time.RFC3339, secret.Annotations[tokenExpiryAnnotation])
	if err != nil {
		return time.Time{}
	}
	return expiry
}

// bootstrapKubeconfig writes the kubeconfig that a hollow-node joins with.
func bootstrapKubeconfig(server string, ca []byte, token string) ([]byte, error) {
	const name = "target"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("writing the bootstrap kubeconfig: %w", err)
	}
	return data, nil
}

// Identities tells what the hollow nodes of a cluster prove themselves with.
type Identities struct {
	// Reader reads the Secrets and pods of Machines, in Namespace of the host.
	Reader             client.Reader
	Namespace, Cluster string
}

// ProviderID returns the provider ID that the hollow node of a Machine registers its Node with.
func (i Identities) ProviderID(machine string) string { return ProviderID(i.Cluster, machine) }

// TokenIDs reads the bootstrap tokens that were minted for a Machine from its Secret. A Machine without a Secret of its own has none.
func (i Identities) TokenIDs(ctx context.Context, machine string) ([]string, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: i.Namespace, Name: machine}
	if err := i.Reader.Get(ctx, key, secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("getting secret %s: %w", key, err)
	}
	if secret.Labels[v1alpha1.ClusterNameLabel] != i.Cluster || secret.Labels[v1alpha1.MachineNameLabel] != machine {
		return nil, nil
	}
	return tokenIDs(secret), nil
}

// Addresses reads the addresses on which the hollow node of a Machine serves from its pod: those of the pod, and what its Node makes of a
// loopback one. A Machine without a pod of its own has none.
func (i Identities) Addresses(ctx context.Context, machine string) ([]netip.Addr, error) {
	pod := &corev1.Pod{}
	key := client.ObjectKey{Namespace: i.Namespace, Name: machine}
	if err := i.Reader.Get(ctx, key, pod); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("getting pod %s: %w", key, err)
	}
	if pod.Labels[v1alpha1.ClusterNameLabel] != i.Cluster || pod.Labels[v1alpha1.MachineNameLabel] != machine || pod.DeletionTimestamp != nil {
		return nil, nil
	}
	var addresses []netip.Addr
	for _, ip := range pod.Status.PodIPs {
		if address, err := netip.ParseAddr(ip.IP); err == nil {
			addresses = append(addresses, address.Unmap(), hollownode.NodeAddress(address))
		}
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	return slices.Compact(addresses), nil
}

// expiries remembers when the bootstrap tokens of Machines that have not joined yet expire, so that their
// Secrets are not read at every look. It is only a memory: what it lacks is read from the Secret.
type expiries struct {
	mu        sync.Mutex
	byMachine map[string]time.Time
}

func (e *expiries) get(machine string) (time.Time, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	expiry, ok := e.byMachine[machine]
	return expiry, ok
}

func (e *expiries) set(machine string, expiry time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.byMachine == nil {
		e.byMachine = map[string]time.Time{}
	}
	e.byMachine[machine] = expiry
}

func (e *expiries) forget(machine string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.byMachine, machine)
}
