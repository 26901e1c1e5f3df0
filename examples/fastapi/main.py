"""A FastAPI application as it is; the line with Endpoint makes it an endpoint."""
import asyncio
from contextlib import asynccontextmanager

from capstan import Endpoint
from fastapi import FastAPI, WebSocket
from fastapi.responses import StreamingResponse
from pydantic import BaseModel


@asynccontextmanager
async def lifespan(app: FastAPI):
    # Load a model here: the worker takes requests once this is done.
    app.state.greeting = "Hello"
    yield
    print("the application ends", flush=True)


app = FastAPI(title="Greetings", lifespan=lifespan)
api = Endpoint(name="fastapi", app=app)


class Person(BaseModel):
    name: str
    times: int = 1


@app.get("/")
def home():
    return {"framework": "FastAPI"}


@app.post("/greet")
def greet(person: Person):
    return {"text": " ".join([f"{app.state.greeting}, {person.name}!"] * person.times)}


@app.get("/count")
async def count(to: int = 3):
    async def lines():
        for number in range(to):
            yield f"{number}\n"
            await asyncio.sleep(0)

    return StreamingResponse(lines(), media_type="text/plain")


@app.websocket("/echo")
async def echo(socket: WebSocket):
    await socket.accept()
    await socket.send_text(f"echo: {await socket.receive_text()}")
    await socket.close()
