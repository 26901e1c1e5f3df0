from blacksheep import Application, Cookie, Request, Response, StreamedContent, WebSocket, get, json, post, redirect, ws
from capstan import Endpoint

app = Application()
app.serve_files("static", root_path="static")
api = Endpoint(name="api", app=app)


@get("/")
async def home():
    return {"home": True}


@get("/items/{number}")
async def item(number: int, q: str = ""):
    return {"number": number, "q": q}


@get("/go")
async def go():
    return redirect("/items/1")


@get("/cookie")
async def cookie():
    response = json({})
    response.set_cookie(Cookie("seen", "yes"))
    return response


@get("/cookies")
async def cookies(request: Request):
    return dict(request.cookies)


@post("/upload")
async def upload(request: Request):
    part = (await request.files("file"))[0]
    return {"name": part.file_name.decode(), "size": len(part.data)}


@get("/stream")
async def stream():
    async def lines():
        for number in range(3):
            yield f"{number}\n".encode()

    return Response(200, content=StreamedContent(b"text/plain", lines))


@ws("/ws")
async def socket(websocket: WebSocket):
    await websocket.accept()
    await websocket.send_text("echo: " + await websocket.receive_text())
    await websocket.close()
