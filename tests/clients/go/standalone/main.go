// The scenario of ../../scenario.py with go-redis: standalone PORT PREFIX
package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

func main() {
	port, prefix := os.Args[1], os.Args[2]
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})
	defer client.Close()
	seen := map[string]any{}
	data(client, prefix, seen)
	pipelines(client, prefix, seen)
	waiting(client, prefix, seen)

	names := []string{}
	keys := client.Scan(ctx, 0, prefix+"*", 0).Iterator()
	for keys.Next(ctx) {
		names = append(names, strings.TrimPrefix(keys.Val(), prefix))
	}
	check(keys.Err())
	sort.Strings(names)
	seen["scanned"] = names

	check(json.NewEncoder(os.Stdout).Encode(seen))
}

func data(client *redis.Client, prefix string, seen map[string]any) {
	check(client.Set(ctx, prefix+"text", "Grüße, Ada", 0).Err())
	seen["text"] = must(client.Get(ctx, prefix+"text").Result())
	if _, err := client.Get(ctx, prefix+"missing").Result(); errors.Is(err, redis.Nil) {
		seen["missing"] = nil
	}

	check(client.Set(ctx, prefix+"bytes", []byte{0, 0xff, '\r', '\n'}, 0).Err())
	seen["bytes"] = hex.EncodeToString(must(client.Get(ctx, prefix+"bytes").Bytes()))

	check(client.HSet(ctx, prefix+"hash", "name", "Ada", "born", "1815").Err())
	seen["hash"] = must(client.HGetAll(ctx, prefix+"hash").Result())

	check(client.SAdd(ctx, prefix+"set", "x", "y", "x").Err())
	members := must(client.SMembers(ctx, prefix+"set").Result())
	sort.Strings(members)
	seen["members"] = members

	check(client.ZAdd(ctx, prefix+"zset", redis.Z{Score: 1.5, Member: "first"}, redis.Z{Score: 2, Member: "second"}).Err())
	ranking := [][]any{}
	for _, entry := range must(client.ZRangeWithScores(ctx, prefix+"zset", 0, -1).Result()) {
		ranking = append(ranking, []any{entry.Member, entry.Score})
	}
	seen["ranking"] = ranking

	check(client.ExpireAt(ctx, prefix+"text", time.Unix(4102444800, 0)).Err())
	seen["expires_at"] = must(client.ExpireTime(ctx, prefix+"text").Result()) / time.Second
	seen["error"] = client.LPush(ctx, prefix+"text", "x").Err().Error()
}

func pipelines(client *redis.Client, prefix string, seen map[string]any) {
	replies := must(client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for range 1000 {
			pipe.Incr(ctx, prefix+"counter")
		}
		return nil
	}))
	sum, last := int64(0), int64(0)
	for _, reply := range replies {
		last = reply.(*redis.IntCmd).Val()
		sum += last
	}
	seen["pipeline"] = []int64{sum, last}

	number := prefix + "number"
	replies = must(client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.IncrBy(ctx, number, 40)
		pipe.IncrBy(ctx, number, 2)
		pipe.Get(ctx, number)
		return nil
	}))
	seen["transaction"] = []any{
		replies[0].(*redis.IntCmd).Val(), replies[1].(*redis.IntCmd).Val(), replies[2].(*redis.StringCmd).Val(),
	}

	// Watch holds one connection; `client` takes another one from the pool.
	increase := func(tx *redis.Tx) ([]int64, error) {
		replies, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Incr(ctx, number).Err() })
		if err != nil {
			return nil, err
		}
		return []int64{replies[0].(*redis.IntCmd).Val()}, nil
	}
	check(client.Watch(ctx, func(tx *redis.Tx) (err error) {
		seen["watch_kept"], err = increase(tx)
		return err
	}, number))
	err := client.Watch(ctx, func(tx *redis.Tx) error {
		check(client.Set(ctx, number, 1, 0).Err())
		_, err := increase(tx)
		return err
	}, number)
	if errors.Is(err, redis.TxFailedErr) {
		seen["watch_lost"] = must(client.Get(ctx, number).Result())
	}
}

func waiting(client *redis.Client, prefix string, seen map[string]any) {
	seen["blocking_pop"] = must(client.BLPop(ctx, 20*time.Second, prefix+"queue").Result())[1]
	// BLPop would round 0.1 s up to a whole second.
	if err := client.Do(ctx, "BLPOP", prefix+"empty", "0.1").Err(); errors.Is(err, redis.Nil) {
		seen["timed_out_pop"] = nil
	}

	subscription := client.Subscribe(ctx, prefix+"channel")
	defer subscription.Close()
	must(subscription.Receive(ctx)) // the confirmation
	check(client.Publish(ctx, prefix+"channel", "hello").Err())
	seen["message"] = must(subscription.ReceiveMessage(ctx)).Payload
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
