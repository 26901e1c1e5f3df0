"""Paths of load-balanced routes, and their rules."""
from __future__ import annotations

import re
from typing import List, Optional

METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH")
_PARAMETER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}|:([A-Za-z_][A-Za-z0-9_]*)")


def path_violation(path: object) -> Optional[str]:
    """Returns the rule that a route's path breaks, or None."""
    if not isinstance(path, str):
        return "must be a string"
    if not path.startswith("/"):
        return "must start with /"
    if len(path) > 1024:
        return "must have at most 1024 characters"
    if re.search(r"[\s?#]", path):
        return "must not contain white space, ? or #"
    for segment in path.split("/"):
        if ("{" in segment or "}" in segment or segment.startswith(":")) and _PARAMETER.fullmatch(segment) is None:
            return f"has the segment {segment}; a path parameter must be a whole segment {{name}}"
    names = path_parameters(path)
    if len(set(names)) != len(names):
        return "has a path parameter twice"
    return None


def path_parameters(path: str) -> List[str]:
    """Returns the names of a path's parameters, in order."""
    found = [parameter_of(segment) for segment in path.split("/")]
    return [name for name in found if name is not None]


def parameter_of(segment: str) -> Optional[str]:
    """Returns the name of the parameter in a path segment; None for a literal segment."""
    match = _PARAMETER.fullmatch(segment)
    return None if match is None else match.group(1) or match.group(2)


def same_route(path: str) -> str:
    """Returns the same text for two paths that match the same requests, whatever their parameter names."""
    return "/".join("{}" if _PARAMETER.fullmatch(segment) else segment for segment in path.split("/"))
