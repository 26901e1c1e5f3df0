"""Each handler returns the time at which it was entered, ms since 1970."""

import time


def in_python(n: int):
    return {"n": n, "at": time.time() * 1000}


def in_python_container(n: int):
    return {"n": n, "at": time.time() * 1000}
