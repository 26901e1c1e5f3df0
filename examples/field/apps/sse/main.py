"""Server-sent events: a page that counts as the server does."""
import asyncio

from sse_starlette.sse import EventSourceResponse
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route

PAGE = """<ol></ol><script>
const events = new EventSource('events');
events.onmessage = ({ data }) => document.querySelector('ol').append(Object.assign(document.createElement('li'), { textContent: data }));
events.addEventListener('end', () => events.close());
</script>"""


async def page(request):
    return HTMLResponse(PAGE)


async def events(request):
    async def numbers():
        for number in range(3):
            yield {"data": f"event {number}"}
            await asyncio.sleep(0.05)
        yield {"event": "end", "data": ""}

    return EventSourceResponse(numbers())


app = Starlette(routes=[Route("/", page), Route("/events", events)])
