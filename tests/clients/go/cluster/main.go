// The cluster scenario of ../../scenario.py with go-redis: cluster PORT PREFIX
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	ctx := context.Background()
	port, prefix := os.Args[1], os.Args[2]
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:" + port}})
	defer cluster.Close()
	seen := map[string]any{}

	sum := 0
	for i := range 200 {
		check(cluster.Set(ctx, prefix+strconv.Itoa(i), i, 0).Err())
	}
	for i := range 200 {
		sum += must(cluster.Get(ctx, prefix+strconv.Itoa(i)).Int())
	}
	seen["sum"] = sum

	replies := must(cluster.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range 100 {
			pipe.Incr(ctx, prefix+"counter"+strconv.Itoa(i))
		}
		return nil
	}))
	counted := int64(0)
	for _, reply := range replies {
		counted += reply.(*redis.IntCmd).Val()
	}
	seen["pipeline"] = counted

	number := "{" + prefix + "}number"
	replies = must(cluster.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.IncrBy(ctx, number, 40)
		pipe.IncrBy(ctx, number, 2)
		pipe.Get(ctx, number)
		return nil
	}))
	seen["transaction"] = []any{
		replies[0].(*redis.IntCmd).Val(), replies[1].(*redis.IntCmd).Val(), replies[2].(*redis.StringCmd).Val(),
	}
	seen["blocking_pop"] = must(cluster.BLPop(ctx, 20*time.Second, "{"+prefix+"}queue").Result())[1]

	check(json.NewEncoder(os.Stdout).Encode(seen))
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
