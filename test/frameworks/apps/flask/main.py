from capstan import Endpoint
from flask import Flask, Response, jsonify, make_response, redirect, request, url_for

app = Flask(__name__, static_folder="static")
api = Endpoint(name="api", app=app)


@app.get("/")
def home():
    return {"home": True}


@app.get("/items/<int:number>")
def item(number):
    link = url_for("static", filename="a.txt", _external=True)
    return {"number": number, "q": request.args.get("q", ""), "url": request.url, "link": link}


@app.get("/slash/")
def slash():
    return {"slash": True}


@app.get("/go")
def go():
    return redirect("/items/1")


@app.get("/cookie")
def cookie():
    response = make_response({})
    response.set_cookie("seen", "yes")
    return response


@app.get("/cookies")
def cookies():
    return jsonify(dict(request.cookies))


@app.post("/upload")
def upload():
    file = request.files["file"]
    return {"name": file.filename, "size": len(file.read())}


@app.get("/stream")
def stream():
    return Response((f"{number}\n" for number in range(3)), mimetype="text/plain")
