"""The model of the accounts."""

from __future__ import annotations

from django.db import models


class Account(models.Model):
    """Something that changes."""

    name = models.TextField()
    balance = models.IntegerField(default=0)

    def __str__(self) -> str:
        return str(self.name)
