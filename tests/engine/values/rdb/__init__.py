"""The RDB encoding of single values, beside the oracle and beside hostile bytes."""
