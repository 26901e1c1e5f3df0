import capstan

from app import thrice


@capstan.Endpoint(name="calls")
def calls(n: int):
    """What another endpoint returns to this one."""
    return thrice(n)
