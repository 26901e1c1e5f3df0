"""A task that may be lost runs in the worker after its response; one that must not is a job of a queue endpoint."""
from capstan import Endpoint
from fastapi import BackgroundTasks, FastAPI

thumbnails = Endpoint(name="thumbnails", workers=(0, 1))


@thumbnails
def thumbnail(url: str):
    return {"of": url, "size": 64}


app = FastAPI()
# workers=(1, 1) keeps the worker whose memory has the counts.
gallery = Endpoint(name="gallery", app=app, workers=(1, 1))
seen = []


@app.post("/upload")
def upload(url: str, tasks: BackgroundTasks):
    tasks.add_task(seen.append, url)
    job = thumbnails.deployed().run({"url": url})
    return {"job": job.id}


@app.get("/seen")
def counted():
    return seen
