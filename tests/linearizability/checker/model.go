package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/anishathalye/porcupine"
)

// A state is the content of one key as text, "" when there is none: a register's value, a list's elements or a set's
// sorted members joined by commas. So no element may be empty or have a comma. A stream's state is "ENTRIES;READ;PENDING":
// the values of its entries, how many of them its one group has got, and the sorted values of those that it has not
// acknowledged. Ids do not matter: XADD's reply is "OK", XREADGROUP, of one entry, replies with its value, and XPENDING with
// how many are pending.

// arities has every command and how many arguments follow its key. CAS is WATCH, GET, MULTI, SET, EXEC by one client
// who read its first argument ("" for nothing) and set the second; one that lost the race changed nothing and is not
// part of a history.
var arities = map[string]int{
	"GET": 0, "SET": 1, "GETSET": 1, "DEL": 0, "INCR": 0, "APPEND": 1, "CAS": 2,
	"RPUSH": 1, "LPUSH": 1, "LPOP": 0, "RPOP": 0, "LLEN": 0, "LRANGE": 0,
	"SADD": 1, "SREM": 1, "SISMEMBER": 1, "SCARD": 0,
	"XADD": 1, "XLEN": 0, "XRANGE": 0, "XREADGROUP": 0, "XACK": 1, "XPENDING": 0,
}

var model = porcupine.Model{
	Init: func() interface{} { return "" },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		one, reply := input.(operation), output.(*string)
		after, expected := apply(state.(string), one)
		return one.Returned == nil || same(expected, reply), after
	},
	DescribeOperation: func(input, output interface{}) string {
		one, reply := input.(operation), output.(*string)
		text := "nil"
		if one.Returned == nil {
			text = "no reply"
		} else if reply != nil {
			text = *reply
		}
		return fmt.Sprintf("%s %s: %s", one.Command, strings.Join(one.Args, " "), text)
	},
}

func same(expected, reply *string) bool {
	if expected == nil || reply == nil {
		return expected == reply
	}
	return *expected == *reply
}

// apply is Redis on one key: the state after the operation, and its reply.
func apply(state string, one operation) (string, *string) {
	switch one.Command {
	case "RPUSH", "LPUSH", "LPOP", "RPOP", "LLEN", "LRANGE":
		return applyToList(state, one)
	case "SADD", "SREM", "SISMEMBER", "SCARD":
		return applyToSet(state, one)
	case "XADD", "XLEN", "XRANGE", "XREADGROUP", "XACK", "XPENDING":
		return applyToStream(state, one)
	default:
		return applyToRegister(state, one)
	}
}

func applyToRegister(state string, one operation) (string, *string) {
	switch one.Command {
	case "GET":
		return state, orNil(state)
	case "SET":
		return one.Args[0], text("OK")
	case "GETSET":
		return one.Args[0], orNil(state)
	case "DEL":
		return "", flag01(state != "")
	case "INCR":
		number, err := strconv.ParseInt(orZero(state), 10, 64)
		if err != nil {
			return state, text("ERR value is not an integer or out of range")
		}
		after := strconv.FormatInt(number+1, 10)
		return after, &after
	case "APPEND":
		after := state + one.Args[0]
		return after, count(len(after))
	case "CAS":
		if state == one.Args[0] {
			return one.Args[1], text("OK")
		}
		return state, nil
	}
	panic(one.Command)
}

func applyToList(state string, one operation) (string, *string) {
	elements := split(state)
	switch one.Command {
	case "RPUSH":
		return join(append(elements, one.Args[0])), count(len(elements) + 1)
	case "LPUSH":
		return join(append([]string{one.Args[0]}, elements...)), count(len(elements) + 1)
	case "LLEN":
		return state, count(len(elements))
	case "LRANGE":
		return state, &state
	}
	if len(elements) == 0 {
		return state, nil
	}
	last := len(elements) - 1
	if one.Command == "LPOP" {
		return join(elements[1:]), &elements[0]
	}
	return join(elements[:last]), &elements[last]
}

func applyToSet(state string, one operation) (string, *string) {
	members := split(state)
	if one.Command == "SCARD" {
		return state, count(len(members))
	}
	at, found := slices.BinarySearch(members, one.Args[0])
	switch {
	case one.Command == "SISMEMBER":
		return state, flag01(found)
	case one.Command == "SADD" && !found:
		return join(slices.Insert(members, at, one.Args[0])), flag01(true)
	case one.Command == "SREM" && found:
		return join(slices.Delete(members, at, at+1)), flag01(true)
	}
	return state, flag01(false)
}

func applyToStream(state string, one operation) (string, *string) {
	if state == "" {
		state = ";0;"
	}
	parts := strings.Split(state, ";")
	entries, pending := split(parts[0]), split(parts[2])
	got, _ := strconv.Atoi(parts[1])
	after := func() string { return join(entries) + ";" + strconv.Itoa(got) + ";" + join(pending) }
	switch one.Command {
	case "XADD":
		entries = append(entries, one.Args[0])
		return after(), text("OK")
	case "XLEN":
		return state, count(len(entries))
	case "XRANGE":
		return state, &parts[0]
	case "XPENDING":
		return state, count(len(pending))
	case "XREADGROUP":
		if got == len(entries) {
			return state, nil
		}
		value := entries[got]
		at, _ := slices.BinarySearch(pending, value)
		pending = slices.Insert(pending, at, value)
		got++
		return after(), &value
	case "XACK":
		at, found := slices.BinarySearch(pending, one.Args[0])
		if found {
			pending = slices.Delete(pending, at, at+1)
		}
		return after(), flag01(found)
	}
	panic(one.Command)
}

func text(value string) *string { return &value }

func count(number int) *string { return text(strconv.Itoa(number)) }

func flag01(is bool) *string {
	if is {
		return text("1")
	}
	return text("0")
}

func orNil(state string) *string {
	if state == "" {
		return nil
	}
	return &state
}

func orZero(state string) string {
	if state == "" {
		return "0"
	}
	return state
}

func split(state string) []string {
	if state == "" {
		return nil
	}
	return strings.Split(state, ",")
}

func join(parts []string) string { return strings.Join(parts, ",") }
