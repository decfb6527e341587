"""The models of a Walrus application."""

from __future__ import annotations

import walrus

from tests.applications.reporting import URL

database = walrus.Database.from_url(URL)


class Person(walrus.Model):
    """Somebody, found by name, by whether they are active, by age and by the words of a text."""

    __database__ = database
    __namespace__ = "walrus"

    name = walrus.TextField(primary_key=True)
    age = walrus.IntegerField(index=True)
    active = walrus.BooleanField(index=True)
    about = walrus.TextField(fts=True)
    tags = walrus.SetField()
    visits = walrus.ListField()
    notes = walrus.HashField()
    scores = walrus.ZSetField()


class Entry(walrus.Model):
    """Something that is numbered as it comes."""

    __database__ = database
    __namespace__ = "walrus"

    number = walrus.AutoIncrementField()
    text = walrus.TextField()
