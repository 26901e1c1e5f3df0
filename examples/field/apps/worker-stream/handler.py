import runpod


def handler(job):
    for word in job["input"]["text"].split():
        yield {"word": word}


runpod.serverless.start({"handler": handler, "return_aggregate_stream": True})
