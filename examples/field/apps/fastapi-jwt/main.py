"""An application with logins of its own: a token by name and password, sent as `Authorization: Bearer`."""
import datetime
import os

import jwt
from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import HTMLResponse
from fastapi.security import OAuth2PasswordBearer, OAuth2PasswordRequestForm

SECRET = os.environ.get("JWT_SECRET", "only for this example, 32 bytes long")
app = FastAPI()
token_of = OAuth2PasswordBearer(tokenUrl="token")


@app.post("/token")
def token(form: OAuth2PasswordRequestForm = Depends()):
    if form.password != "secret":
        raise HTTPException(401, "wrong password")
    until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=5)
    return {"access_token": jwt.encode({"sub": form.username, "exp": until}, SECRET, "HS256"), "token_type": "bearer"}


@app.get("/me")
def me(given: str = Depends(token_of)):
    try:
        return {"name": jwt.decode(given, SECRET, ["HS256"])["sub"]}
    except jwt.InvalidTokenError:
        raise HTTPException(401, "not signed in") from None


@app.get("/", response_class=HTMLResponse)
def page():
    return """<form><input name="username" value="ada"><input name="password" value="secret"><button>Sign in</button></form><p id="out"></p>
<script>
document.forms[0].onsubmit = async (event) => {
  event.preventDefault();
  const answer = await fetch('token', { method: 'POST', body: new FormData(event.target) });
  const { access_token } = await answer.json();
  const me = await fetch('me', { headers: { Authorization: `Bearer ${access_token}` } });
  document.getElementById('out').textContent = `signed in as ${(await me.json()).name}`;
};
</script>"""
