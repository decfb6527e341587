"""Users and what they may do: AUTH, the ACL commands, and the checks in front of every command."""

from __future__ import annotations

from ingest.resp.acl.accounts import WRONG_PASSWORD, Acl
from ingest.resp.acl.file import AclFileError
from ingest.resp.acl.protection import may_connect
from ingest.resp.acl.redaction import redacted
from ingest.resp.acl.selector import Denial
from ingest.resp.acl.users import User

__all__ = ["WRONG_PASSWORD", "Acl", "AclFileError", "Denial", "User", "may_connect", "redacted"]
