from capstan import Endpoint
from fastapi import FastAPI, File, Request, Response, UploadFile, WebSocket
from fastapi.responses import RedirectResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from starlette.middleware.cors import CORSMiddleware

web = FastAPI()
web.mount("/static", StaticFiles(directory="static"), name="static")
part = FastAPI()
web.mount("/part", part)
app = CORSMiddleware(web, allow_origins=["https://example.com"])
api = Endpoint(name="api", app=app)


@web.get("/")
def home():
    return {"home": True}


@web.get("/items/{number}")
def item(number: int, request: Request, q: str = ""):
    return {"number": number, "q": q, "url": str(request.url), "link": str(request.url_for("static", path="a.txt"))}


@part.get("/")
def of_part(request: Request):
    return {"part": str(request.url)}


@web.get("/slash/")
def slash():
    return {"slash": True}


@web.get("/go")
def go():
    return RedirectResponse("/items/1")


@web.get("/cookie")
def cookie(response: Response):
    response.set_cookie("seen", "yes")
    return {}


@web.get("/cookies")
def cookies(request: Request):
    return dict(request.cookies)


@web.post("/upload")
async def upload(file: UploadFile = File(...)):
    return {"name": file.filename, "size": len(await file.read())}


@web.get("/stream")
def stream():
    return StreamingResponse((f"{number}\n" for number in range(3)), media_type="text/plain")


@web.websocket("/ws")
async def ws(socket: WebSocket):
    await socket.accept()
    await socket.send_text("echo: " + await socket.receive_text())
    await socket.close()
