from capstan import Endpoint
from litestar import Litestar, Request, WebSocket, get, post, websocket
from litestar.datastructures import Cookie, UploadFile
from litestar.enums import RequestEncodingType
from litestar.params import Body
from litestar.response import Redirect, Response, Stream
from litestar.static_files import create_static_files_router
from typing import Annotated


@get("/")
async def home() -> dict:
    return {"home": True}


@get("/items/{number:int}")
async def item(number: int, request: Request, q: str = "") -> dict:
    return {"number": number, "q": q, "url": str(request.url)}


@get("/go")
async def go() -> Redirect:
    return Redirect("/items/1")


@get("/cookie")
async def cookie() -> Response:
    return Response({}, cookies=[Cookie(key="seen", value="yes")])


@get("/cookies")
async def cookies(request: Request) -> dict:
    return dict(request.cookies)


@post("/upload", status_code=200)
async def upload(data: Annotated[dict[str, UploadFile], Body(media_type=RequestEncodingType.MULTI_PART)]) -> dict:
    return {"name": data["file"].filename, "size": len(await data["file"].read())}


@get("/stream")
async def stream() -> Stream:
    return Stream((f"{number}\n" for number in range(3)))


@websocket("/ws")
async def ws(socket: WebSocket) -> None:
    await socket.accept()
    await socket.send_text("echo: " + await socket.receive_text())
    await socket.close()


app = Litestar([home, item, go, cookie, cookies, upload, stream, ws, create_static_files_router("/static", directories=["static"])])
api = Endpoint(name="api", app=app)
