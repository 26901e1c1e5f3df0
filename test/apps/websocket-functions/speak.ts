/** A function that takes a WebSocket. */
import { Endpoint, type ServerWebSocket } from '@capstan/sdk';

const api = new Endpoint({ name: 'speak', workers: [0, 1], maxConcurrency: 4, idleTimeout: 60 });

export const speak = api.get('/rooms/{room}', async (websocket: ServerWebSocket, room: string, loud: boolean = false) => {
  if (websocket.protocols.includes('chat')) websocket.accept({ protocol: 'chat' });
  for await (const message of websocket) await websocket.send(`${room}: ${loud ? String(message).toUpperCase() : String(message)}`);
});
