from capstan import Endpoint
from quart import Quart, jsonify, make_response, redirect, request, url_for, websocket

app = Quart(__name__, static_folder="static")
api = Endpoint(name="api", app=app)


@app.get("/")
async def home():
    return {"home": True}


@app.get("/items/<int:number>")
async def item(number):
    link = url_for("static", filename="a.txt", _external=True)
    return {"number": number, "q": request.args.get("q", ""), "url": request.url, "link": link}


@app.get("/slash/")
async def slash():
    return {"slash": True}


@app.get("/go")
async def go():
    return redirect("/items/1")


@app.get("/cookie")
async def cookie():
    response = await make_response({})
    response.set_cookie("seen", "yes")
    return response


@app.get("/cookies")
async def cookies():
    return jsonify(dict(request.cookies))


@app.post("/upload")
async def upload():
    file = (await request.files)["file"]
    return {"name": file.filename, "size": len(file.read())}


@app.get("/stream")
async def stream():
    async def lines():
        for number in range(3):
            yield f"{number}\n"

    return lines(), {"content-type": "text/plain"}


@app.websocket("/ws")
async def ws():
    await websocket.send("echo: " + await websocket.receive())
