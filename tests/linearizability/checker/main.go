// Command checker reads a history of concurrent operations, one JSON object a line on standard input, and says per key
// whether it is linearizable: whether there is one order of the operations, each at some moment between its call and its
// return, in which every reply is the one that a single Redis would have given.
//
//	{"key": "r1", "command": "SET", "args": ["5"], "reply": "OK", "called": 17, "returned": 23}
//
// Times are nanoseconds of one clock. A reply is text (integers in decimal, arrays joined by commas) or null. "returned"
// is null when the reply was lost with its connection: the operation may take effect at any later moment, or never.
//
// The answer is one JSON object on standard output: {"keys": 3, "illegal": ["r1"], "undecided": []}. A key is undecided
// when the search took longer than -timeout. With -pictures a page that shows each illegal key is written there.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

type operation struct {
	Key      string   `json:"key"`
	Command  string   `json:"command"`
	Args     []string `json:"args"`
	Reply    *string  `json:"reply"`
	Called   int64    `json:"called"`
	Returned *int64   `json:"returned"`
}

type verdict struct {
	Keys      int      `json:"keys"`
	Illegal   []string `json:"illegal"`
	Undecided []string `json:"undecided"`
}

func main() {
	log.SetFlags(0)
	timeout := flag.Duration("timeout", time.Minute, "longest search for one key")
	pictures := flag.String("pictures", "", "directory for a page per illegal key")
	flag.Parse()
	histories, err := read(os.Stdin)
	if err != nil {
		log.Fatalf("checker: %v", err)
	}
	answer, err := check(histories, *timeout, *pictures)
	if err != nil {
		log.Fatalf("checker: %v", err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		log.Fatalf("checker: %v", err)
	}
}

// read returns the operations of each key. A line that is not understood is an error: nothing is left out in silence.
func read(input io.Reader) (map[string][]operation, error) {
	histories := map[string][]operation{}
	lines := bufio.NewScanner(input)
	lines.Buffer(nil, 1<<24)
	for number := 1; lines.Scan(); number++ {
		decoder := json.NewDecoder(strings.NewReader(lines.Text()))
		decoder.DisallowUnknownFields()
		var read operation
		if err := decoder.Decode(&read); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if arity, known := arities[read.Command]; !known || arity != len(read.Args) {
			return nil, fmt.Errorf("line %d: no command %s with %d arguments", number, read.Command, len(read.Args))
		}
		if read.Returned != nil && *read.Returned < read.Called {
			return nil, fmt.Errorf("line %d: it returned before it was called", number)
		}
		histories[read.Key] = append(histories[read.Key], read)
	}
	return histories, lines.Err()
}

func check(histories map[string][]operation, timeout time.Duration, pictures string) (verdict, error) {
	answer := verdict{Keys: len(histories), Illegal: []string{}, Undecided: []string{}}
	for key, history := range histories {
		result, info := porcupine.CheckOperationsVerbose(model, intervals(history), timeout)
		switch result {
		case porcupine.Unknown:
			answer.Undecided = append(answer.Undecided, key)
		case porcupine.Illegal:
			answer.Illegal = append(answer.Illegal, key)
			if pictures != "" {
				page := filepath.Join(pictures, fmt.Sprintf("%x.html", key))
				if err := porcupine.VisualizePath(model, info, page); err != nil {
					return answer, err
				}
			}
		}
	}
	sort.Strings(answer.Illegal)
	sort.Strings(answer.Undecided)
	return answer, nil
}

// intervals gives each operation its interval; one without a reply ends after all others, where it changes nothing that
// anybody sees.
func intervals(history []operation) []porcupine.Operation {
	all := make([]porcupine.Operation, len(history))
	for at, one := range history {
		returned := int64(math.MaxInt64)
		if one.Returned != nil {
			returned = *one.Returned
		}
		all[at] = porcupine.Operation{Input: one, Output: one.Reply, Call: one.Called, Return: returned}
	}
	return all
}
