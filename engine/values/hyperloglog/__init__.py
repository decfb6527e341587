"""HyperLogLog values: count different elements within 0.81 %, in at most 12,304 bytes.

A value is a string, byte for byte what Redis stores: 16,384 registers of 6 bits behind a header of 16 bytes.

    header   "HYLL" [encoding:1] [0:3] [cardinality:8, little-endian; its top bit: not known]
    dense    encoding 0: [registers:12288], register n at bits 6n … 6n + 5, from the lowest of the first byte
    sparse   encoding 1: opcodes that cover all registers in order
             ZERO  00llllll            l + 1 registers are 0
             XZERO 01llllll llllllll   l + 1 registers are 0
             VAL   1vvvvvll            l + 1 registers are v + 1

Redis writes the cardinality into the value when it counts. Counting is a read here, so it is never known in a value
that slotlog has written; one that a client has stored with SET is taken at its word.

Everything is integer arithmetic but for the estimate, which adds, multiplies, divides and takes square roots of
doubles: IEEE 754 leaves no choice about any of them.

Sources: Heule, Nunkesser, Hall, "HyperLogLog in Practice", 2013 (sparse and dense registers); Ertl, "New cardinality
estimation algorithms for HyperLogLog sketches", 2017 (the estimate); Appleby's MurmurHash64A.
"""
