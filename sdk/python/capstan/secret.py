"""Secrets of the account as values of ``env``."""
from __future__ import annotations

import re

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)


class Secret(str):
    """
    The value of ``env`` that stands for a secret of the account (``capstan secret set NAME``). Workers see the secret's
    value in the variable: it is in no source, manifest or build. In the development server it is the variable ``NAME``
    of the shell or of ``.env``.

        @Endpoint(name="chat", env={"HF_TOKEN": Secret("HF_TOKEN")})

    Raises ValueError for a name that is not of letters, digits and underscores.
    """

    __slots__ = ()

    def __new__(cls, name: str) -> Secret:
        if _NAME.fullmatch(name) is None:
            raise ValueError(
                f"secret: {name!r} must be a name of 1 to 128 letters, digits and underscores, and must not start with a digit"
            )
        return super().__new__(cls, f"{{{{ CAPSTAN_SECRET_{name} }}}}")
