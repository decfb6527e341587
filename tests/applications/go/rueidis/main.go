// Command rueidis: a client that caches what it reads, another one that writes, and a server that goes away.
package main

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"slotlog/tests/applications/working"
)

const changes = 40

func main() {
	ctx := context.Background()
	reader, writer := connect(), connect()
	get := func() (value string, hit bool) {
		working.Insist(func() error {
			result := reader.DoCache(ctx, reader.B().Get().Key("key").Cache(), time.Minute)
			value, hit = "", result.IsCacheHit()
			text, err := result.ToString()
			value = text
			return err
		})
		return value, hit
	}
	hits, misses := 0, 0
	for number := range changes {
		want := strconv.Itoa(number)
		working.Insist(func() error {
			return writer.Do(ctx, writer.B().Set().Key("key").Value(want).Build()).Error()
		})
		working.WaitUntil(working.Timeout, func() bool { value, _ := get(); return value == want }) // a cache learns of it soon
		for range 3 {
			switch value, hit := get(); {
			case value != want:
				panic("it read " + value + " after " + want)
			case hit:
				hits++
			default:
				misses++
			}
		}
		working.Note(want)
		time.Sleep(working.Poll)
	}
	working.WaitForOutage(1)
	working.Report(map[string]any{"hits": hits, "misses": misses})
}

func connect() rueidis.Client {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{working.Address}})
	working.Must(err)
	return client
}
