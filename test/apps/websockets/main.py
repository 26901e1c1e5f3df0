"""An ASGI application without a framework, behind uvicorn: it knows nothing of this service."""

import json
import os


async def app(scope, receive, send):
    if scope["type"] == "http":
        status = 200 if scope["path"] == "/ping" else 404
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})
    elif scope["type"] == "websocket":
        await talk(scope, receive, send)
    else:
        assert scope["type"] == "lifespan"
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})


async def talk(scope, receive, send):
    assert (await receive())["type"] == "websocket.connect"
    offered = scope["subprotocols"]
    await send({"type": "websocket.accept", "subprotocol": "echo.v2" if "echo.v2" in offered else None})
    headers = {name.decode(): value.decode() for name, value in scope["headers"]}
    said = {
        "path": scope["path"],
        "protocols": ",".join(offered) or None,
        "deflate": "permessage-deflate" if "permessage-deflate" in headers.get("sec-websocket-extensions", "") else "",
    }
    await send({"type": "websocket.send", "text": json.dumps(said)})
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return
        text = message.get("text")
        if text == "exit":
            os._exit(1)
        if text == "bye":
            await send({"type": "websocket.close", "code": 4001, "reason": "as asked"})
            return
        await send({"type": "websocket.send", "text": text, "bytes": message.get("bytes")})
