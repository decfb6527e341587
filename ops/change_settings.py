"""Settings of the change feed: the table [changes] of the file, SLOTLOG_CHANGES__… as variables."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class ChangeSettings(BaseModel):
    """The topic that changes of keys are told in."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True, validate_default=True)

    topic: str = Field(
        default="",
        pattern=r"^[a-zA-Z0-9._-]{0,249}$",
        description="Kafka topic that gets a record for each change of a key; empty: none",
    )
    value_bytes_max: int = Field(
        default=64 * 1024, ge=0, le=512 * 1024, description="larger values are left out of the records"
    )
