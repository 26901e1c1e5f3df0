/** Functions of routes that every runtime must serve alike, once in each language; and a server of one's own. */
import type { FunctionSpec } from '../../../proto/gen/capstan/v1/nodes.ts';

const JAVASCRIPT_SOURCE = `
import { setTimeout as wait } from 'node:timers/promises';

export const hello = ({ name, times = 1 }) => ({ hello: name, times });
export const item = (id, verbose = false) => ({ id, verbose });
export const search = (q, tags = []) => ({ q, tags });
export const whole = (input) => input;
export const later = async (value) => { await wait(1); return value; };
export const boom = () => { throw new Error('it broke'); };
export const octets = () => Buffer.from([0, 1, 255]);
export const teapot = () => new Response('short and stout', { status: 418, headers: [['x-pot', 'tea'], ['set-cookie', 'a=1'], ['set-cookie', 'b=2']] });
export const large = (size) => 'x'.repeat(size);
export function echo(request) {
  return new Response(request.body, { status: 201, headers: { 'x-method': request.method, 'x-url': request.url, 'x-own': request.headers.get('x-own') } });
}
export function* count(to) { for (let n = 1; n <= to; n += 1) yield { n }; }
export function* events() {
  yield 'data: {"n":1}\\n\\n';
  yield ': keep-alive\\n\\n';
  yield 'event: tick\\r\\nid: 2\\r\\ndata: two\\r\\n\\r\\n';
  yield Buffer.from('data: three\\n\\ndata: four\\n\\n');
  yield 'data: no end';
  yield 'two\\rlines\\n\\n';
}
export async function* words() { for (const word of ['one ', 'two']) { await wait(0); yield word; } }
export function* breaks() { yield 'begun'; throw new Error('broke in the middle'); }
export function* endless() {
  let parts = 0;
  try { for (;;) { parts += 1; yield 'x'.repeat(64 * 1024); } } finally { console.log('ended after', parts); }
}
export async function parked(context) {
  console.log('parked');
  await new Promise((resolve) => context.signal.addEventListener('abort', resolve));
  console.log('let go');
}
export async function chat(websocket, room = 'all') {
  if (room === 'closed') return new Response('no room', { status: 403, headers: { 'content-type': 'text/plain' } });
  if (room === 'unused') return { unused: true };
  if (room !== 'lazy') websocket.accept({ protocol: websocket.protocols.at(-1) });
  await websocket.send({ room, protocols: websocket.protocols, own: websocket.request.headers.get('x-own') });
  for await (const message of websocket) {
    if (message === 'boom') throw new Error('it broke');
    if (message === 'return') return;
    if (message === 'bye') await websocket.close(4001, 'as asked');
    else if (String(message).startsWith('close ')) {
      const [, code, reason = ''] = message.split(' ');
      await websocket.close(Number(code), reason).catch((error) => websocket.send(error.name + ' ' + error.message));
    }
    else if (message === 'flood') for (let n = 0; n < 12; n++) await websocket.send(new Uint8Array(65_536));
    else await websocket.send(message);
  }
  console.log('closed with', websocket.closeCode, websocket.closeReason);
}
export const chatNow = chat;
export async function leaves(code) { await wait(1); process.exit(code); }
export async function deaf() { console.log('deaf'); await wait(1); for (;;); }
`;

const PYTHON_SOURCE = `
import asyncio
import sys
from typing import Any, List

def hello(name: str, times: int = 1):
    return {"hello": name, "times": times}
def item(id: int, verbose: bool = False):
    return {"id": id, "verbose": verbose}
def search(q: str, tags: List[str] = ()):
    return {"q": q, "tags": list(tags)}
def whole(input):
    return input
async def later(value: float):
    await asyncio.sleep(0.001)
    return value
def boom():
    raise ValueError("it broke")
def octets():
    return bytes([0, 1, 255])
def teapot(request):
    return request.Response("short and stout", 418, [("x-pot", "tea"), ("set-cookie", "a=1"), ("set-cookie", "b=2")])
def large(size: int):
    return "x" * size
def echo(request):
    headers = {"x-method": request.method, "x-url": request.url, "x-own": request.headers["x-own"]}
    return request.Response(request.stream(), 201, headers)
def count(to: int):
    for n in range(1, to + 1):
        yield {"n": n}
def events():
    yield 'data: {"n":1}\\n\\n'
    yield ': keep-alive\\n\\n'
    yield 'event: tick\\r\\nid: 2\\r\\ndata: two\\r\\n\\r\\n'
    yield b'data: three\\n\\ndata: four\\n\\n'
    yield 'data: no end'
    yield 'two\\rlines\\n\\n'
async def words():
    for word in ["one ", "two"]:
        await asyncio.sleep(0)
        yield word
def breaks():
    yield "begun"
    raise ValueError("broke in the middle")
def endless():
    parts = 0
    try:
        while True:
            parts += 1
            yield "x" * 65536
    finally:
        print("ended after", parts)
async def chat(websocket, room: str = "all"):
    if room == "closed":
        return websocket.request.Response("no room", 403, {"content-type": "text/plain"})
    if room == "unused":
        return {"unused": True}
    if room != "lazy":
        await websocket.accept(websocket.protocols[-1] if websocket.protocols else None)
    await websocket.send({"room": room, "protocols": websocket.protocols, "own": websocket.request.headers.get("x-own")})
    async for message in websocket:
        if message == "boom":
            raise ValueError("it broke")
        if message == "return":
            return
        if message == "bye":
            await websocket.close(4001, "as asked")
        elif isinstance(message, str) and message.startswith("close "):
            code, _, reason = message[6:].partition(" ")
            try:
                await websocket.close(int(code), reason)
            except ValueError as error:
                await websocket.send(f"ValueError {error}")
        elif message == "flood":
            for n in range(12):
                await websocket.send(bytes(65536))
        else:
            await websocket.send(message)
    print("closed with", websocket.close_code, websocket.close_reason)
def chatNow(websocket, room: str = "all"):
    if room == "closed":
        return websocket.request.Response("no room", 403, {"content-type": "text/plain"})
    if room == "unused":
        return {"unused": True}
    if room != "lazy":
        websocket.accept(websocket.protocols[-1] if websocket.protocols else None)
    websocket.send({"room": room, "protocols": websocket.protocols, "own": websocket.request.headers.get("x-own")})
    for message in websocket:
        if message == "boom":
            raise ValueError("it broke")
        if message == "return":
            return
        if message == "bye":
            websocket.close(4001, "as asked")
        elif isinstance(message, str) and message.startswith("close "):
            code, _, reason = message[6:].partition(" ")
            try:
                websocket.close(int(code), reason)
            except ValueError as error:
                websocket.send(f"ValueError {error}")
        elif message == "flood":
            for n in range(12):
                websocket.send(bytes(65536))
        else:
            websocket.send(message)
    print("closed with", websocket.close_code, websocket.close_reason)
async def parked():
    print("parked")
    try:
        await asyncio.sleep(3600)
    finally:
        print("let go")
async def leaves(code: int):
    await asyncio.sleep(0.001)
    sys.exit(code)
def deaf():
    print("deaf")
    while True:
        pass
`;

type Parameters = Readonly<Record<string, string>>;

/** Parameters as the build reads them from TypeScript; Python's host reads its own. A `?` marks one that may be left out. */
const functions: Readonly<Record<string, Parameters>> = {
  hello: { name: 'string', 'times?': 'integer' },
  item: { id: 'integer', 'verbose?': 'boolean' },
  search: { q: 'string', 'tags?': 'array' },
  whole: {},
  later: { value: 'number' },
  boom: {},
  octets: {},
  teapot: {},
  large: { size: 'integer' },
  echo: { request: 'request' },
  count: { to: 'integer' },
  events: {},
  words: {},
  breaks: {},
  endless: {},
  chat: { websocket: 'object', 'room?': 'string' },
  chatNow: { websocket: 'object', 'room?': 'string' },
  parked: {},
  leaves: { code: 'integer' },
  deaf: {},
};

export interface HttpBuild {
  readonly files: Readonly<Record<string, string>>;
  readonly functions: readonly FunctionSpec[];
}

function specsOf(module: string): FunctionSpec[] {
  return Object.entries(functions).map(([name, parameters]) => ({
    name,
    module,
    callStyle: name === 'hello' ? 'CALL_STYLE_OBJECT' : name === 'whole' ? 'CALL_STYLE_WHOLE' : 'CALL_STYLE_POSITIONAL',
    parameters: Object.entries(parameters).map(([key, type]) => ({
      name: key.replace('?', ''),
      required: !key.endsWith('?'),
      type,
    })),
  }));
}

export const javascriptHttp: HttpBuild = { files: { 'main.js': JAVASCRIPT_SOURCE }, functions: specsOf('main.js') };
export const pythonHttp: HttpBuild = { files: { 'main.py': PYTHON_SOURCE }, functions: specsOf('main.py') };

/** Initialising at first; echoes requests, and the first frame of a connection that it takes over. */
export const SERVER_SOURCE = `
import hashlib, base64, os, socketserver, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

asked = [0]

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *args): pass
    def do_GET(self):
        if self.path == "/ping":
            asked[0] += 1
            return self.answer(200 if asked[0] > 2 else 204, b"")
        if self.path == "/exit": os._exit(3)
        if self.headers.get("upgrade") == "websocket": return self.take_over()
        self.answer(203, b"GET")
    def do_POST(self):
        self.answer(203, self.rfile.read(int(self.headers["content-length"])))
    def answer(self, status, body):
        self.send_response(status)
        self.send_header("x-path", self.path)
        self.send_header("x-pings", str(asked[0]))
        if status != 204: self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def take_over(self):
        key = self.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("upgrade", "websocket")
        self.send_header("connection", "Upgrade")
        self.send_header("sec-websocket-accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        self.wfile.write(self.connection.recv(1024))
        self.close_connection = True

ports = {os.environ["PORT"], os.environ["PORT_HEALTH"]}
print("listens on", len(ports), flush=True)
for port in ports:
    server = ThreadingHTTPServer((os.environ.get("LISTEN", "127.0.0.1"), int(port)), Handler)
    threading.Thread(target=server.serve_forever).start()
`;
