package disruption

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// longestDryRun bounds how long a dry run that a command has left behind stays.
const longestDryRun = 24 * time.Hour

// expiresAt is when a dry run that a command has made is deleted, which the command may be unable to do itself. It is zero for all that
// is a user's own: without the mark of a command, under another name than the marked one, or no dry run any more.
func expiresAt(disruption *v1alpha1.NodeDisruption) time.Time {
	name, lasts, marked := strings.Cut(disruption.Annotations[v1alpha1.CommandDryRunAnnotation], " ")
	if !marked || name != disruption.Name || !disruption.Spec.DryRun || disruption.Status.LastScheduleTime != nil {
		return time.Time{}
	}
	after, err := time.ParseDuration(lasts)
	if err != nil || after <= 0 || after > longestDryRun {
		return time.Time{}
	}
	return disruption.CreationTimestamp.Add(after)
}

// expireDryRun deletes a dry run as it was when it was looked at: one that was changed since is looked at again.
func (c *Controller) expireDryRun(ctx context.Context, disruption *v1alpha1.NodeDisruption) error {
	uid, version := disruption.UID, disruption.ResourceVersion
	if err := c.Client.Delete(ctx, disruption, client.Preconditions{UID: &uid, ResourceVersion: &version}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the dry run that its command has left: %w", err)
	}
	return nil
}
