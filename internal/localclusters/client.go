package localclusters

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// requestTimeout bounds a request. The keeper starts and removes clusters after it has answered.
const requestTimeout = 15 * time.Second

// Client asks a keeper. Each error wraps ErrUnavailable, or is a *Problem.
type Client struct{ http http.Client }

// NewClient returns a client of the keeper that serves the socket. It does not connect yet.
func NewClient(socket string) *Client {
	return &Client{http.Client{Timeout: requestTimeout, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialSocket(ctx, socket)
		},
	}}}
}

// List returns all clusters.
func (c *Client) List(ctx context.Context) (ClusterList, error) {
	var list ClusterList
	err := c.askKeeper(ctx, http.MethodGet, "/clusters", nil, &list)
	return list, err
}

// Get returns a cluster; nil if there is none of that name.
func (c *Client) Get(ctx context.Context, name string) (*Cluster, error) {
	var cluster Cluster
	err := c.askKeeper(ctx, http.MethodGet, clusterPath(name), nil, &cluster)
	if ReasonOf(err) == NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &cluster, nil
}

// Ensure asks for a cluster, also again. The keeper has recorded it when there is no error, and starts it later.
func (c *Client) Ensure(ctx context.Context, name string, desired Desired) error {
	err := c.askKeeper(ctx, http.MethodPut, clusterPath(name), desired, nil)
	return err
}

// Remove asks for the removal of the cluster with that UID. It reports whether nothing of it is left.
func (c *Client) Remove(ctx context.Context, name, uid string) (gone bool, err error) {
	err = c.askKeeper(ctx, http.MethodDelete, clusterPath(name)+"?uid="+url.QueryEscape(uid), nil, nil)
	if ReasonOf(err) == NotFound {
		return true, nil
	}
	return false, err
}

func clusterPath(name string) string { return "/clusters/" + url.PathEscape(name) }

func (c *Client) askKeeper(ctx context.Context, method, path string, body, answer any) error {
	var content io.Reader = http.NoBody
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encoding a request to the keeper: %w", err)
		}
		content = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://keeper"+path, content)
	if err != nil {
		return fmt.Errorf("making a request to the keeper: %w", err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer response.Body.Close()
	read, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%w: reading its answer: %w", ErrUnavailable, err)
	}
	return decodeAnswer(response, read, answer)
}

// decodeAnswer reads what a keeper has answered. Anything else is ErrUnavailable: a status alone says nothing.
func decodeAnswer(response *http.Response, content []byte, answer any) error {
	if response.StatusCode == http.StatusOK || response.StatusCode == http.StatusAccepted {
		if answer == nil {
			return nil
		}
		if err := json.Unmarshal(content, answer); err != nil {
			return fmt.Errorf("%w: reading its answer: %w", ErrUnavailable, err)
		}
		return nil
	}
	problem := &Problem{}
	if err := json.Unmarshal(content, problem); err != nil || problem.Reason == "" || statusCodes[problem.Reason] != response.StatusCode {
		return fmt.Errorf("%w: it answers %s: %w", ErrUnavailable, response.Status, errors.New(string(content[:min(len(content), 200)])))
	}
	return problem
}
