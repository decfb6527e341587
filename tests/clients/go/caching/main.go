// The scenario CACHED of ../../scenario.py with rueidis: caching PORT PREFIX
package main

import (
	"context"
	"encoding/json"
	"os"
	"time"

	"github.com/redis/rueidis"
)

var ctx = context.Background()

func main() {
	port, prefix := os.Args[1], os.Args[2]
	options := rueidis.ClientOption{InitAddress: []string{"127.0.0.1:" + port}, ForceSingleClient: true}
	client, other := must(rueidis.NewClient(options)), must(rueidis.NewClient(options))
	defer client.Close()
	defer other.Close()
	key := prefix + "key"
	seen := map[string]any{}

	set(other, key, "1")
	seen["read"], _ = get(client, key)
	value, isHit := get(client, key)
	seen["kept"] = []any{value, isHit}
	set(other, key, "2")
	seen["changed"] = until(client, key, "2")
	set(client, key, "3")
	seen["own"] = until(client, key, "3")
	check(other.Do(ctx, other.B().Del().Key(key).Build()).Error())
	seen["deleted"] = until(client, key, nil)

	check(json.NewEncoder(os.Stdout).Encode(seen))
}

func set(client rueidis.Client, key, value string) {
	check(client.Do(ctx, client.B().Set().Key(key).Value(value).Build()).Error())
}

// The value, and whether it was in the cache.
func get(client rueidis.Client, key string) (any, bool) {
	reply := client.DoCache(ctx, client.B().Get().Key(key).Cache(), time.Hour)
	value, err := reply.ToString()
	if rueidis.IsRedisNil(err) {
		return nil, reply.IsCacheHit()
	}
	check(err)
	return value, reply.IsCacheHit()
}

// Reads until the value is the wanted one: the cache is told of it in its own time.
func until(client rueidis.Client, key string, wanted any) any {
	for ends := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if value, _ := get(client, key); value == wanted || time.Now().After(ends) {
			return value
		}
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
