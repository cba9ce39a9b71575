package localclusters

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// Keeper is what runs clusters. A refusal is a *Problem.
type Keeper interface {
	List(ctx context.Context) (ClusterList, error)
	// Get returns a cluster, or a Problem with NotFound.
	Get(ctx context.Context, name string) (Cluster, error)
	// Ensure records a cluster, and returns before it is started. desired is valid.
	Ensure(ctx context.Context, name string, desired Desired) (Cluster, error)
	// Remove lets the cluster with that UID be removed, and returns before it is. When nothing is left it is a Problem with NotFound.
	Remove(ctx context.Context, name, uid string) (Cluster, error)
}

// NewHandler serves a Keeper.
func NewHandler(keeper Keeper) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /clusters", func(w http.ResponseWriter, r *http.Request) {
		list, err := keeper.List(r.Context())
		answer(w, http.StatusOK, list, err)
	})
	mux.HandleFunc("GET /clusters/{name}", func(w http.ResponseWriter, r *http.Request) {
		cluster, err := keeper.Get(r.Context(), r.PathValue("name"))
		answer(w, http.StatusOK, cluster, err)
	})
	mux.HandleFunc("PUT /clusters/{name}", func(w http.ResponseWriter, r *http.Request) {
		desired, err := decodeDesired(w, r)
		if err != nil {
			answer(w, 0, nil, err)
			return
		}
		cluster, err := keeper.Ensure(r.Context(), r.PathValue("name"), desired)
		answer(w, http.StatusAccepted, cluster, err)
	})
	mux.HandleFunc("DELETE /clusters/{name}", func(w http.ResponseWriter, r *http.Request) {
		uid := r.URL.Query().Get("uid")
		if !uidPattern.MatchString(uid) {
			answer(w, 0, nil, invalidError("uid", "%q is not a UID: send metadata.uid of the SimulatedCluster as ?uid=UID", uid))
			return
		}
		cluster, err := keeper.Remove(r.Context(), r.PathValue("name"), uid)
		answer(w, http.StatusAccepted, cluster, err)
	})
	return mux
}

func decodeDesired(w http.ResponseWriter, r *http.Request) (Desired, error) {
	var desired Desired
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest))
	// A field that this keeper does not know might change what is asked for.
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&desired); err != nil {
		return desired, invalidError("", "reading the request: %v", err)
	}
	return desired, desired.Validate(r.PathValue("name"), time.Now())
}

func answer(w http.ResponseWriter, status int, body any, err error) {
	if err != nil {
		problem := (*Problem)(nil)
		if !errors.As(err, &problem) {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		status, body = statusCodes[problem.Reason], problem
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// An error is that of a client that has gone.
	_ = json.NewEncoder(w).Encode(body)
}
