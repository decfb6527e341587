"""The demo's input: a month of real flights, the events that a flight board would send, and the results to expect."""
