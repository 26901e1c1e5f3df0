"""
A worker that speaks the worker protocol with nothing but the standard library.
What it does with a job stands in the job's input.
"""
import json
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request

WORKER = os.environ["RUNPOD_POD_ID"]
TOKEN = os.environ["RUNPOD_AI_API_KEY"]
ROOM = int(os.environ.get("ROOM", "1"))
running = {}
changed = threading.Condition()
leaving = threading.Event()
hanging = threading.Event()
stopped = set()


def call(url, body=None, token=TOKEN):
    data = None if body is None else (body if isinstance(body, bytes) else json.dumps(body).encode())
    request = urllib.request.Request(url, data=data, headers={"Authorization": token})
    try:
        with urllib.request.urlopen(request, timeout=90) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def address(name, job=None):
    url = os.environ[name].replace("$RUNPOD_POD_ID", WORKER)
    return url.replace("$ID", WORKER if job is None else job)


def take_url(kind):
    return address("RUNPOD_WEBHOOK_GET_JOB").replace("/job-take/", "/%s/" % kind)


def done(job, document, stream="false"):
    return call(address("RUNPOD_WEBHOOK_POST_OUTPUT", job) + "&isStream=" + stream, document)


def handle(job):
    order = job["input"]
    ident = job["id"]
    kind = order.get("do", "echo")
    if kind == "echo":
        done(ident, {"output": order})
    elif kind == "raw":
        print("status", done(ident, order["body"].encode())[0], flush=True)
    elif kind == "job":
        done(ident, {"output": job})
    elif kind == "stream":
        for value in range(order["count"]):
            call(address("RUNPOD_WEBHOOK_POST_STREAM", ident) + "&isStream=true", {"output": value})
        done(ident, {"output": []}, "true")
    elif kind == "chunk":
        call(address("RUNPOD_WEBHOOK_POST_STREAM", ident) + "&isStream=true", {"output": "x" * order["bytes"]})
        done(ident, {"output": []}, "true")
    elif kind == "progress":
        done(ident, {"status": "IN_PROGRESS", "output": {"percent": 50}})
        done(ident, {"output": "done"})
        done(ident, {"status": "IN_PROGRESS", "output": "late"})
        print("late status", done(ident, {"output": "late"})[0], flush=True)
    elif kind == "large":
        print("status", done(ident, {"output": "x" * order["bytes"]})[0], flush=True)
    elif kind == "wait":
        while ident not in stopped:
            time.sleep(0.01)
    elif kind == "freeze":
        with open(order["path"], "w") as file:
            file.write(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)
    elif kind == "deaf":
        time.sleep(3600)
    elif kind == "silent":
        pass
    elif kind == "recycle":
        done(ident, {"output": os.getpid(), "stopPod": True})
    elif kind == "limits":
        import resource

        with open("/proc/self/oom_score_adj") as file:
            done(ident, {"output": [resource.getrlimit(resource.RLIMIT_CORE), int(file.read())]})
    elif kind == "pid":
        done(ident, {"output": os.getpid()})
    elif kind == "exit":
        os._exit(order["code"])
    elif kind == "hog":
        kept = []
        while True:
            kept.append(bytearray(b"1" * 16 * 1024 * 1024))
            time.sleep(0.005)
    elif kind == "daemon":
        child = os.fork()
        if child == 0:
            os.setsid()
            time.sleep(3600)
        done(ident, {"output": child})
    elif kind == "children":
        import subprocess

        own = subprocess.Popen(["sleep", "300"], start_new_session=True)
        # A parent that ends at once: its child belongs to nobody here.
        orphan = int(subprocess.check_output(["sh", "-c", "sleep 300 >/dev/null & echo $!"]))
        done(ident, {"status": "IN_PROGRESS", "output": [own.pid, orphan]})
        while ident not in stopped:
            time.sleep(0.01)
    elif kind == "thieve":
        other = address("RUNPOD_WEBHOOK_POST_OUTPUT", order["job"]).replace(WORKER, order["worker"])
        base = address("RUNPOD_WEBHOOK_GET_JOB").split("/v2/")[0]
        answers = [
            call(other, {"output": "stolen"})[0],
            call(take_url("job-take"), token="wrong")[0],
            call(take_url("job-take"), token="")[0],
            call(take_url("job-take").replace(WORKER, "nobody"))[0],
            call(base + "/v2/other/job-take/" + WORKER + "?gpu=X")[0],
            call(base + "/v2/x/nothing/" + WORKER)[0],
            call(base + "/")[0],
        ]
        done(ident, {"output": answers})
    elif kind == "hang":
        hanging.set()
        done(ident, {"output": "hangs"})
    elif kind == "unhealthy":
        call(address("RUNPOD_WEBHOOK_PING") + "&status=unhealthy&check=disk&reason=full")


def run(job):
    try:
        handle(job)
    finally:
        with changed:
            running.pop(job["id"])
            changed.notify_all()


def ping():
    while True:
        jobs = ",".join(running)
        call(address("RUNPOD_WEBHOOK_PING") + ("&job_id=" + jobs if jobs else "") + "&version=test")
        time.sleep(int(os.environ["RUNPOD_PING_INTERVAL"]) / 1000)


def hear_stops():
    while True:
        status, body = call(take_url("job-stop"))
        if status == 200:
            stopped.update(json.loads(body)["jobsToStop"])


def serve():
    while not leaving.is_set():
        if hanging.is_set():
            # Its pings go on.
            time.sleep(3600)
        with changed:
            while len(running) >= ROOM:
                changed.wait(0.1)
            room = ROOM - len(running)
            busy = "1" if running else "0"
        if room > 1:
            status, body = call(take_url("job-take-batch") + "&batch_size=%d&job_in_progress=%s" % (room, busy))
        else:
            status, body = call(take_url("job-take") + "&job_in_progress=" + busy)
        if status != 200:
            continue
        jobs = json.loads(body)
        for job in jobs if isinstance(jobs, list) else [jobs]:
            running[job["id"]] = job
            threading.Thread(target=run, args=(job,), daemon=True).start()


def main():
    print("argv", json.dumps(sys.argv[1:]), flush=True)
    if "unwell" in sys.argv:
        call(address("RUNPOD_WEBHOOK_PING") + "&status=unhealthy&check=gpu&reason=none%20found")
        os._exit(1)
    signal.signal(signal.SIGTERM, lambda *_: leaving.set())
    threading.Thread(target=ping, daemon=True).start()
    threading.Thread(target=hear_stops, daemon=True).start()
    serve()


main()
