from capstan import Endpoint


@Endpoint(name="inner", workers=(0, 1))
def inner(name: str, ctx):
    return {"name": name, "traceparent": ctx.traceparent}


page = Endpoint(name="page", workers=(0, 1))


@page.get("/seen")
def seen(request):
    return {"traceparent": request.headers.get("traceparent")}
