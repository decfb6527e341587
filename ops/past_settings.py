"""Settings of reads in the past: the table [past] of the file, SLOTLOG_PAST__… as variables."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class PastSettings(BaseModel):
    """The work of a service that makes reads in the past quick."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True, validate_default=True)

    index_seconds: float = Field(
        default=0.0,
        ge=0,
        description="seconds after which a service adds what is new to the index of offsets; 0: who looks back does",
    )
