/** A server of the package `ws`, as its users write it. */
import { createServer } from 'node:http';
import { createRequire } from 'node:module';

const { WebSocketServer } = createRequire(`${process.env.PACKAGES}/`)('ws');

const http = createServer((request, response) => {
  response.writeHead(request.url === '/ping' ? 200 : 404).end();
});
const sockets = new WebSocketServer({
  server: http,
  perMessageDeflate: { threshold: 0 },
  handleProtocols: (offered) => (offered.has('echo.v2') ? 'echo.v2' : false),
});
sockets.on('connection', (socket, request) => {
  socket.send(
    JSON.stringify({ path: request.url, protocols: request.headers['sec-websocket-protocol'] ?? null, deflate: socket.extensions }),
  );
  socket.on('message', (data, isBinary) => {
    if (!isBinary && String(data) === 'exit') process.exit(1);
    else if (!isBinary && String(data) === 'bye') socket.close(4001, 'as asked');
    else socket.send(data, { binary: isBinary });
  });
});
// What a server does that wants to end in order.
process.on('SIGTERM', () => {
  for (const socket of sockets.clients) socket.close(1001, 'the server stops');
  http.close(() => process.exit(0));
});
http.listen(Number(process.env.PORT), '127.0.0.1');
