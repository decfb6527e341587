"""The demo's input: a month of real flights, their events and the expected results."""
