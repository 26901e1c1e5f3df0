import os

import falcon
import falcon.asgi
from capstan import Endpoint


class Home:
    async def on_get(self, request, response):
        response.media = {"home": True}


class Item:
    async def on_get(self, request, response, number):
        response.media = {"number": number, "q": request.get_param("q") or "", "url": request.url}


class Go:
    async def on_get(self, request, response):
        raise falcon.HTTPFound("/items/1")


class SetCookie:
    async def on_get(self, request, response):
        response.set_cookie("seen", "yes", secure=False)


class Cookies:
    async def on_get(self, request, response):
        response.media = dict(request.cookies)


class Upload:
    async def on_post(self, request, response):
        async for part in await request.get_media():
            response.media = {"name": part.filename, "size": len(await part.get_data())}


class Stream:
    async def on_get(self, request, response):
        async def lines():
            for number in range(3):
                yield f"{number}\n".encode()

        response.content_type = "text/plain"
        response.stream = lines()


class Socket:
    async def on_websocket(self, request, socket):
        await socket.accept()
        await socket.send_text("echo: " + await socket.receive_text())
        await socket.close()


app = falcon.asgi.App()
app.add_static_route("/static", os.path.abspath("static"))
for path, resource in {
    "/": Home(),
    "/items/{number:int}": Item(),
    "/go": Go(),
    "/cookie": SetCookie(),
    "/cookies": Cookies(),
    "/upload": Upload(),
    "/stream": Stream(),
    "/ws": Socket(),
}.items():
    app.add_route(path, resource)
api = Endpoint(name="api", app=app)
