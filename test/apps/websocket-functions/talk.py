"""Functions that take a WebSocket."""
import capstan

api = capstan.Endpoint(name="talk", workers=(0, 1), max_concurrency=4, idle_timeout=60)


@api.get("/rooms/{room}")
async def talk(websocket, room: str, loud: bool = False):
    if "chat" in websocket.protocols:
        await websocket.accept("chat")
    async for message in websocket:
        await websocket.send(f"{room}: {message.upper() if loud else message}")


@api.get("/plain")
def plain():
    return "no WebSocket here"
