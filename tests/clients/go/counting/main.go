// Counts keys of a cluster up with go-redis, until its standard input ends; a dot for each 50: counting PORT PREFIX
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	ctx := context.Background()
	port, prefix := os.Args[1], os.Args[2]
	options := &redis.ClusterOptions{Addrs: []string{"127.0.0.1:" + port}}
	if len(os.Args) > 3 && os.Args[3] == "patient" { // where nobody takes over, a worker is away for seconds
		options.MaxRedirects = 300 // attempts
		options.MinRetryBackoff = 100 * time.Millisecond
		options.MaxRetryBackoff = 100 * time.Millisecond
	}
	cluster := redis.NewClusterClient(options)
	defer cluster.Close()

	var ended atomic.Bool
	go func() {
		io.Copy(io.Discard, os.Stdin)
		ended.Store(true)
	}()
	counts, errors := map[string]int64{}, []string{}
	for number := 0; !ended.Load() && len(errors) == 0; number++ {
		key := prefix + ":" + strconv.Itoa(number%50)
		count, err := cluster.Incr(ctx, key).Result()
		if err != nil {
			errors = append(errors, err.Error())
		} else {
			counts[key] = count
		}
		if number%50 == 49 {
			fmt.Println(".")
		}
	}
	json.NewEncoder(os.Stdout).Encode(map[string]any{"counts": counts, "errors": errors})
}
