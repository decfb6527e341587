"""Events with what came of them, as lines of JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ops.cli.options import print_json

if TYPE_CHECKING:
    from ops.past.history import Touch


def print_touch(touch: Touch, **more: Any) -> None:
    """Print an event as one line; `more` stands behind it."""
    from ops.past.documents import touch_as_json

    print_json({**touch_as_json(touch), **more})
