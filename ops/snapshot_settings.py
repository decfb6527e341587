"""Settings of snapshots: the table [snapshots] of the file, SLOTLOG_SNAPSHOTS__… as variables."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class SnapshotSettings(BaseModel):
    """Place, times and number of snapshots."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True, validate_default=True)

    url: str = Field(default="", description="where snapshots are: a directory or s3://BUCKET/PREFIX; empty: none")
    keep: int = Field(default=3, ge=1, description="newest verified snapshots that are kept of each partition")
    keep_days: float = Field(default=0.0, ge=0, description="days for which older ones are kept as well; 0: none")
    events: int = Field(
        default=0, ge=0, description="events after which a service takes a snapshot of a partition; 0: not by events"
    )
    bytes: int = Field(default=0, ge=0, description="bytes of events after which it takes one; 0: not by bytes")
    seconds: float = Field(
        default=0.0, ge=0, description="seconds after which it takes one, if there are events; 0: not by time"
    )
    grace_hours: float = Field(
        default=24.0,
        gt=0,
        description="hours for which a file that no snapshot needs is kept; an upload may take half of them",
    )

    trim_seconds: float = Field(
        default=0.0,
        ge=0,
        description="seconds after which a service cuts off the log before its oldest verified snapshot; 0: never",
    )

    @model_validator(mode="after")
    def _has_place(self) -> Self:
        """A schedule without a place would be no snapshots at all."""
        if not self.url and (self.events or self.bytes or self.seconds or self.trim_seconds):
            raise ValueError(
                "a schedule of snapshots needs a place for them: set SLOTLOG_SNAPSHOTS__URL to a directory or"
                " s3://BUCKET/PREFIX"
            )
        return self

    @property
    def is_scheduled(self) -> bool:
        """Whether a service takes any by itself."""
        return bool(self.url and (self.events or self.bytes or self.seconds))
