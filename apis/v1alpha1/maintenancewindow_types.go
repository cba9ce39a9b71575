package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaintenanceWindow is a time that comes again and again.
type MaintenanceWindow struct {
	// name of the window.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`
	// schedule is when it opens: minute, hour, day of month, month and day of week, as in crontab, by the wall clock of timeZone. The
	// day of week is 0 to 7, where 0 and 7 are Sunday; 6#1 is the first Saturday of a month, and 6#L the last. A time that does
	// not exist on a day opens the window when the clocks have gone forward; one that exists twice opens it the first time.
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[-0-9A-Za-z*/,?# ]+$`
	// +required
	Schedule string `json:"schedule"`
	// duration is how long it stays open, as time passes, in hours, minutes and seconds, such as 4h30m.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,4}h|[0-9]{1,6}m|[0-9]{1,8}s)+$`
	// +required
	Duration metav1.Duration `json:"duration"`
	// timeZone of schedule, as the IANA time zone database names it, such as Europe/Berlin. Default UTC.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$`
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
	// clusterSelector chooses clusters by their labels. Default: all of the fleet's.
	// +kubebuilder:validation:XValidation:rule="(!has(self.matchLabels) || self.matchLabels.size() <= 32) && (!has(self.matchExpressions) || self.matchExpressions.size() <= 32)",message="clusterSelector: at most 32 labels and 32 expressions"
	// +optional
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`
}

// MaintenanceExclusion is a time in which no maintenance window is open.
type MaintenanceExclusion struct {
	// name of the exclusion.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`
	// start is a date, such as 2026-12-20, or a date with a time of day, such as 2026-12-20T18:00, by the wall clock of timeZone.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2})?$`
	// +required
	Start string `json:"start"`
	// end has the same form. A date alone is excluded to its end; a time of day is not excluded any more.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2})?$`
	// +required
	End string `json:"end"`
	// timeZone of start and end, as the IANA time zone database names it, such as Europe/Berlin. Default UTC.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$`
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
	// clusterSelector chooses clusters by their labels. Default: all of the fleet's.
	// +kubebuilder:validation:XValidation:rule="(!has(self.matchLabels) || self.matchLabels.size() <= 32) && (!has(self.matchExpressions) || self.matchExpressions.size() <= 32)",message="clusterSelector: at most 32 labels and 32 expressions"
	// +optional
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`
}
