"""State directories: opens, replays, checks, cleans and measures them."""
