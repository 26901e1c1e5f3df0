/** Attackers on the channel between a worker and its agent, and on its output. Each writes for some seconds, or until it is killed. */

export const RUNTIMES = [
  { name: 'thread', runtime: 'thread', module: 'main.js' },
  { name: 'node', runtime: 'process', module: 'main.js' },
  { name: 'python', runtime: 'process', module: 'main.py' },
] as const;

/** Attacks by several jobs of one worker at once: this many. */
export const MANY_JOBS = 40;

export const ATTACKS = [
  'progress',
  'heads',
  'long-header',
  'lines',
  'log',
  'chunks',
  'large-chunks',
  'chunks-of-many',
  'results',
  'newlines',
  'entries',
  'connections',
] as const;

export type Attack = (typeof ATTACKS)[number];

/** Keeps a processor busy and sends nothing: what a neighbour feels of it is the machine's, not the agent's. */
export const CONTROL = 'busy';

const SECONDS = 4;

const JAVASCRIPT = `
import { writeSync } from 'node:fs';
import { connect } from 'node:net';

function write(fd, bytes) {
  for (let at = 0; at < bytes.length; ) {
    try {
      at += writeSync(fd, bytes, at);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
    }
  }
}

function frame(header, body = Buffer.alloc(0)) {
  const text = Buffer.from(JSON.stringify(header));
  const prefix = Buffer.alloc(8);
  prefix.writeUInt32LE(4 + text.length + body.length, 0);
  prefix.writeUInt32LE(text.length, 4);
  return Buffer.concat([prefix, text, body]);
}

const MIB = 1 << 20;
const many = (bytes) => Buffer.concat(Array.from({ length: Math.ceil(MIB / bytes.length) }, () => bytes));
const FLOODS = {
  progress: (key) => [3, many(frame({ t: 'progress', key }, Buffer.from('1')))],
  heads: () => [3, many(frame({ t: 'http-credit', key: 'h1', count: 0 }))],
  'long-header': () => [3, frame({ t: 'log', stream: 'stdout', jobId: '', text: '\\n'.repeat(32 * MIB) })],
  lines: () => [3, many(frame({ t: 'log', stream: 'stdout', jobId: '' }, Buffer.alloc(60_000, '\\n')))],
  log: () => [3, many(frame({ t: 'log', stream: 'stdout', jobId: '' }, Buffer.from('x\\n')))],
  chunks: (key) => [3, many(frame({ t: 'chunk', key }, Buffer.alloc(60_000, '1')))],
  'large-chunks': (key) => [3, frame({ t: 'chunk', key }, Buffer.alloc(MIB, '1'))],
  'chunks-of-many': (_key, keys) => [3, Buffer.concat(keys.map((key) => frame({ t: 'chunk', key }, Buffer.alloc(MIB, '1'))))],
  results: (key) => [3, frame({ t: 'returned', key, ms: 1 }, Buffer.alloc(20 * MIB, '1'))],
  newlines: () => [1, Buffer.alloc(65_536, '\\n')],
  entries: (key) => [4, many(Buffer.from(key + '\\n'))],
};

// Each sends the beginning of a request, and is left for another one.
async function dial(host, port, end) {
  const open = [];
  while (performance.now() < end) {
    const socket = connect(port, host);
    socket.on('error', () => undefined);
    socket.write('GET /v2/x/ping/x HTTP/1.1\\r\\n');
    open.push(socket);
    if (open.length > 300) open.shift().destroy();
    await new Promise((resolve) => setImmediate(resolve));
  }
  for (const socket of open) socket.destroy();
}

export async function attack({ attack, key, keys, host, port }) {
  // The other jobs of an attack by many have begun.
  await new Promise((resolve) => setTimeout(resolve, 200));
  if (attack === 'wait') return new Promise(() => undefined);
  const end = performance.now() + ${SECONDS}_000;
  if (attack === '${CONTROL}') while (performance.now() < end);
  else if (attack === 'connections') await dial(host, port, end);
  else {
    const [fd, bytes] = FLOODS[attack](key, keys);
    while (performance.now() < end) write(fd, bytes);
  }
  return new Promise(() => undefined);
}
`;

const PYTHON = `
import asyncio
import json
import os
import select
import socket
import struct
import time


def write(fd, data):
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view):]
        except BlockingIOError:
            select.select([], [fd], [])


def frame(header, body=b""):
    text = json.dumps(header).encode()
    return struct.pack("<II", 4 + len(text) + len(body), len(text)) + text + body


MIB = 1 << 20


def many(data):
    return data * (MIB // len(data) + 1)


FLOODS = {
    "progress": lambda key, keys: (3, many(frame({"t": "progress", "key": key}, b"1"))),
    "heads": lambda key, keys: (3, many(frame({"t": "http-credit", "key": "h1", "count": 0}))),
    "long-header": lambda key, keys: (3, frame({"t": "log", "stream": "stdout", "jobId": "", "text": "\\n" * (32 * MIB)})),
    "lines": lambda key, keys: (3, many(frame({"t": "log", "stream": "stdout", "jobId": ""}, b"\\n" * 60_000))),
    "log": lambda key, keys: (3, many(frame({"t": "log", "stream": "stdout", "jobId": ""}, b"x\\n"))),
    "chunks": lambda key, keys: (3, many(frame({"t": "chunk", "key": key}, b"1" * 60_000))),
    "large-chunks": lambda key, keys: (3, frame({"t": "chunk", "key": key}, b"1" * MIB)),
    "chunks-of-many": lambda key, keys: (3, b"".join(frame({"t": "chunk", "key": each}, b"1" * MIB) for each in keys)),
    "results": lambda key, keys: (3, frame({"t": "returned", "key": key, "ms": 1}, b"1" * (20 * MIB))),
    "newlines": lambda key, keys: (1, b"\\n" * 65_536),
    "entries": lambda key, keys: (4, many((key + "\\n").encode())),
}


# As in JavaScript.
def dial(host, port, end):
    dialled = []
    while time.monotonic() < end:
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex((host, port))
        dialled.append(one)
        if len(dialled) > 300:
            last = dialled.pop(0)
            try:
                last.send(b"GET /v2/x/ping/x HTTP/1.1\\r\\n")
            except OSError:
                pass
            last.close()


async def attack(attack, key, keys, host, port):
    # The other jobs of an attack by many have begun.
    await asyncio.sleep(60 if attack == "wait" else 0.2)
    end = time.monotonic() + ${SECONDS}
    if attack == "${CONTROL}":
        while time.monotonic() < end:
            pass
    elif attack == "connections":
        dial(host, port, end)
    else:
        fd, data = FLOODS[attack](key, keys)
        while time.monotonic() < end:
            write(fd, data)
    time.sleep(60)
`;

export const MODULES = { 'main.js': JAVASCRIPT, 'main.py': PYTHON } as const;
