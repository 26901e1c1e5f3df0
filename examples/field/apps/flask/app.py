"""A guest book in SQLite: a form, a redirect, a page."""
import os
import sqlite3

from flask import Flask, redirect, render_template_string, request, url_for

# A worker's own folder goes with it; `data` on a folder of the host stays (docs/recipes.md).
FILE = os.path.join(os.environ.get("GUESTS_FOLDER", "."), "guests.db")
app = Flask(__name__)


def database():
    connection = sqlite3.connect(FILE, timeout=10)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE IF NOT EXISTS guests (name TEXT)")
    return connection


@app.get("/")
def index():
    with database() as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM guests")]
    return render_template_string(
        """<link rel="stylesheet" href="{{ url_for('static', filename='style.css') }}">
<form method="post" action="{{ url_for('sign') }}"><input name="name"><button>Sign</button></form>
<ul>{% for name in names %}<li>{{ name }}</li>{% endfor %}</ul>""",
        names=names,
    )


@app.post("/sign")
def sign():
    with database() as connection:
        connection.execute("INSERT INTO guests VALUES (?)", (request.form["name"],))
    return redirect(url_for("index"))
