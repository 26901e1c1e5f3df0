/** A server of the user's own: echoes requests, and what comes over a connection that it takes over. */
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';

const ACCEPT = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
let asked = 0;

const server = createServer((request, response) => {
  if (request.url === '/ping') {
    asked += 1;
    // Initialising at first.
    response.writeHead(asked > 2 ? 200 : 204).end();
    return;
  }
  if (request.url === '/exit') process.exit(1);
  if (request.url === '/early') {
    // From the headers alone; the body stays unread.
    request.socket.pause();
    const raw = 'HTTP/1.1 413 Payload Too Large\r\nContent-Length: 9\r\nConnection: close\r\n\r\ntoo large';
    request.socket.write(raw, () => request.socket.destroy());
    return;
  }
  if (request.url.startsWith('/raw?')) {
    request.socket.end(decodeURIComponent(request.url.slice(5)));
    return;
  }
  response.writeHead(203, { 'x-method': request.method, 'x-path': request.url, 'x-pings': String(asked) });
  request.pipe(response);
});
server.on('upgrade', (request, socket) => {
  const accept = createHash('sha1').update(`${request.headers['sec-websocket-key']}${ACCEPT}`).digest('base64');
  socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
  socket.once('data', (frame) => {
    // One short text frame: its mask off, and back.
    const length = frame[1] & 0x7f;
    const text = Buffer.from(frame.subarray(6, 6 + length).map((byte, at) => byte ^ frame[2 + (at % 4)]));
    socket.write(Buffer.concat([Buffer.from([0x81, length]), text]));
  });
  socket.on('error', () => socket.destroy());
});
server.listen(Number(process.env.PORT), '127.0.0.1');
