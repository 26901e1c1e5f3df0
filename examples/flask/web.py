"""A Flask application as it is; the line with Endpoint makes it an endpoint."""
from capstan import Endpoint
from flask import Flask, Response, request

app = Flask(__name__)
api = Endpoint(name="flask", app=app)


@app.get("/")
def home():
    return {"framework": "Flask"}


@app.post("/sum")
def total():
    return {"sum": sum(request.get_json()["numbers"])}


@app.get("/count")
def count():
    return Response((f"{number}\n" for number in range(3)), mimetype="text/plain")
