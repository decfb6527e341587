"""Users and their permissions: AUTH, the ACL commands, and the check of every command."""

from __future__ import annotations

from resp.acl.accounts import WRONG_PASSWORD, Acl
from resp.acl.file import AclFileError
from resp.acl.protection import may_connect
from resp.acl.redaction import redacted
from resp.acl.selector import Denial
from resp.acl.users import User

__all__ = ["WRONG_PASSWORD", "Acl", "AclFileError", "Denial", "User", "may_connect", "redacted"]
