"""A group of workers: who joins it, and which of them owns or follows which partition."""

from ingest.membership.assignor import assign
from ingest.membership.plan import Member, Plan, Role
from ingest.membership.user_data import UserDataError, pack_member, pack_plan, unpack_member, unpack_plan

__all__ = [
    "Member",
    "Plan",
    "Role",
    "UserDataError",
    "assign",
    "pack_member",
    "pack_plan",
    "unpack_member",
    "unpack_plan",
]
