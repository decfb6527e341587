"""Settings of a group of workers."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class GroupSettings(BaseModel):
    """Settings of the group that gives partitions to this worker."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True, validate_default=True)

    name: str = Field(
        default="",
        pattern=r"^[a-zA-Z0-9._-]{0,245}$",
        description="Kafka group that says which partitions this worker applies, instead of own; empty: none does",
    )
    instance: str = Field(
        default="",
        pattern=r"^[a-zA-Z0-9._-]{0,245}$",
        description="name of this worker alone in its group, so that a restart moves nothing; empty: a new member",
    )
    zone: str = Field(default="", description="where this worker runs: copies of a partition go to several zones")
    standbys: int = Field(
        default=0, ge=0, le=9, description="workers that follow each partition beside its owner, to take it over"
    )
    session_seconds: float = Field(
        default=10.0, ge=1, le=1800, description="seconds after which the group gives up a worker that is silent"
    )
    hand_over_seconds: float = Field(
        default=10.0,
        ge=0,
        le=86400,
        description="seconds that a worker which is told to end waits at most until others serve its partitions; "
        "one with an instance does not wait",
    )
    hold_seconds: float = Field(
        default=1.5,
        ge=0,
        le=60,
        description="seconds that a command waits at most while its partition moves, before its client hears of it",
    )
