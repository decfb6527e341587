// Command redis_rate: clients that ask for more than they may have, while the server goes away.
package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"slotlog/tests/applications/working"
)

const clients = 4

// An hour passes until there is one more than the 60.
var limit = redis_rate.Limit{Rate: 1, Burst: 60, Period: time.Hour}

func main() {
	limiter := redis_rate.NewLimiter(redis.NewClient(&redis.Options{Addr: working.Address, MaxRetries: -1}))
	var unknown atomic.Int32
	ask := func() {
		wasAway := false
		for {
			result, err := limiter.Allow(context.Background(), "everybody", limit)
			switch {
			case err == nil && result.Allowed == 0:
				return
			case err == nil:
				working.Note("allowed")
			case !wasAway:
				wasAway = true
				unknown.Add(1)
			}
			time.Sleep(working.Poll)
		}
	}
	var asking sync.WaitGroup
	for range clients {
		asking.Add(1)
		go func() { defer asking.Done(); ask() }()
	}
	asking.Wait()
	working.WaitForOutage(1)
	after, err := limiter.Allow(context.Background(), "everybody", limit)
	working.Must(err)
	working.Report(map[string]any{"unknown": unknown.Load(), "after": after.Allowed})
}
