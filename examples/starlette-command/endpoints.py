"""Any server with any options: a program that listens on $PORT."""
from capstan import Endpoint

api = Endpoint(
    name="starlette",
    command=["uvicorn", "main:app", "--host", "$CAPSTAN_HOST", "--port", "$PORT", "--no-access-log"],
    start_timeout=60,
)
