import capstan


@capstan.Endpoint(name="thrice")
def thrice(n: int):
    return {"n": n * 3}
