#!/usr/bin/env bash
# A FastAPI application, from an empty folder to an answer.
set -euo pipefail

echo fastapi > requirements.txt
cat > main.py <<'PY'
from capstan import Endpoint
from fastapi import FastAPI
from pydantic import BaseModel

app = FastAPI()
api = Endpoint(name="shop", app=app)


class Order(BaseModel):
    item: str
    count: int = 1


@app.post("/orders")
def order(order: Order):
    return {"ordered": f"{order.count} x {order.item}"}
PY

capstan deploy
curl -s "$CAPSTAN_URL/lb/shop/orders" -H "Authorization: Bearer $SERVICE_API_KEY" --json '{"item": "lamp", "count": 2}'
