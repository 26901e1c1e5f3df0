import runpod


def handler(job):
    return {"shout": job["input"]["text"].upper()}


runpod.serverless.start({"handler": handler})
