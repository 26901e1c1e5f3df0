from capstan import Endpoint
from starlette.applications import Starlette
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles


async def home(request):
    return JSONResponse({"home": True})


async def item(request):
    link = str(request.url_for("static", path="a.txt"))
    return JSONResponse(
        {"number": request.path_params["number"], "q": request.query_params.get("q", ""), "url": str(request.url), "link": link}
    )


async def part(request):
    return JSONResponse({"part": str(request.url)})


async def slash(request):
    return JSONResponse({"slash": True})


async def go(request):
    return RedirectResponse("/items/1")


async def cookie(request):
    response = Response()
    response.set_cookie("seen", "yes")
    return response


async def cookies(request):
    return JSONResponse(request.cookies)


async def upload(request):
    form = await request.form()
    file = form["file"]
    return JSONResponse({"name": file.filename, "size": len(await file.read())})


async def stream(request):
    return StreamingResponse((f"{number}\n" for number in range(3)), media_type="text/plain")


async def ws(socket):
    await socket.accept()
    await socket.send_text("echo: " + await socket.receive_text())
    await socket.close()


app = Starlette(
    routes=[
        Route("/", home),
        Route("/items/{number:int}", item),
        Mount("/part", routes=[Route("/", part)]),
        Route("/slash/", slash),
        Route("/go", go),
        Route("/cookie", cookie),
        Route("/cookies", cookies),
        Route("/upload", upload, methods=["POST"]),
        Route("/stream", stream),
        WebSocketRoute("/ws", ws),
        Mount("/static", StaticFiles(directory="static"), name="static"),
    ]
)
api = Endpoint(name="api", app=app)
