"""Tests of the layouts `kvrocks` and `kvrocks-cluster`; sessions on one of them alone collect them."""
