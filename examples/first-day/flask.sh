#!/usr/bin/env bash
# A Flask application, from an empty folder to an answer.
set -euo pipefail

echo flask > requirements.txt
cat > main.py <<'PY'
from capstan import Endpoint
from flask import Flask, request

app = Flask(__name__)
api = Endpoint(name="guestbook", app=app)


@app.post("/greetings")
def greet():
    return {"greeting": f"Hello, {request.json['name']}!"}
PY

capstan deploy
curl -s "$CAPSTAN_URL/lb/guestbook/greetings" -H "Authorization: Bearer $SERVICE_API_KEY" --json '{"name": "Ada"}'
