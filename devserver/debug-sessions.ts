/**
 * Sessions of breakpoint() on the server's terminal: each is a connection of a worker (python/capstan_debug.py) that gets
 * the terminal's input and writes its output there. One has the terminal at a time; the others wait in order.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';

/** Folder of the module that workers import. */
export const DEBUG_MODULES = fileURLToPath(new URL('python', import.meta.url));
/** The longest first line of a connection. */
const MAX_GREETING = 4096;

export interface DebugTerminal {
  readonly input: Readable;
  /** Writes text as it is, without a line end of its own. */
  readonly write: (text: string) => void;
  /** A line of the server. */
  readonly line: (text: string) => void;
}

interface Session {
  readonly endpoint: string;
  /** `file:line` of the breakpoint. */
  readonly place: string;
  readonly socket: Socket;
}

export class DebugSessions {
  readonly #server: Server;
  readonly #folder: string;
  readonly #terminal: DebugTerminal;
  /** The first one has the terminal. */
  readonly #sessions: Session[] = [];
  #inputEnded = false;
  readonly #onInput = (data: Buffer | string): void => {
    this.#sessions[0]?.socket.write(data);
  };
  readonly #onEnd = (): void => {
    this.#inputEnded = true;
    // Nobody will type `c`: calls go on without a debugger.
    this.#sessions[0]?.socket.write('c\n');
    for (const { socket } of this.#sessions.splice(1)) socket.end('-');
  };

  private constructor(server: Server, folder: string, terminal: DebugTerminal) {
    this.#server = server;
    this.#folder = folder;
    this.#terminal = terminal;
  }

  static async open(terminal: DebugTerminal): Promise<DebugSessions> {
    // Only this user may enter the folder.
    const folder = await mkdtemp(join(tmpdir(), 'capstan-debug-'));
    const server = createServer();
    const sessions = new DebugSessions(server, folder, terminal);
    server.on('connection', (socket) => sessions.#greet(socket));
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject).listen(sessions.path, resolve);
    });
    return sessions;
  }

  /** The socket that workers connect to. */
  get path(): string {
    return join(this.#folder, 'sessions');
  }

  /** True while a breakpoint holds a call of the endpoint. */
  holds(endpoint: string): boolean {
    return this.#sessions.some((each) => each.endpoint === endpoint);
  }

  async close(): Promise<void> {
    this.#release();
    for (const { socket } of this.#sessions.splice(0)) socket.destroy();
    this.#server.close();
    await rm(this.#folder, { recursive: true, force: true });
  }

  #greet(socket: Socket): void {
    let text = '';
    // The worker's end closes with its process.
    socket.on('error', () => socket.destroy());
    socket.setEncoding('utf8');
    const onData = (data: string): void => {
      text += data;
      const end = text.indexOf('\n');
      if (end === -1) {
        if (text.length > MAX_GREETING) socket.destroy();
        return;
      }
      socket.off('data', onData);
      const [endpoint = '', ...place] = text.slice(0, end).split(' ');
      this.#add({ endpoint, place: place.join(' '), socket });
    };
    socket.on('data', onData);
  }

  #add(session: Session): void {
    const { socket } = session;
    if (this.#inputEnded) {
      socket.end('-');
      return;
    }
    this.#sessions.push(session);
    socket.on('data', (text: string) => {
      if (this.#sessions[0] === session) this.#terminal.write(text);
    });
    socket.once('close', () => this.#over(session));
    if (this.#sessions[0] === session) this.#begin(session);
    else this.#terminal.line(`${session.endpoint} is waiting at breakpoint() in ${session.place}`);
  }

  #begin({ endpoint, place, socket }: Session): void {
    this.#terminal.line(`${endpoint} stopped at breakpoint() in ${place}; pdb is attached to this terminal: c continues, q ends the call`);
    this.#terminal.input.on('data', this.#onInput).once('end', this.#onEnd);
    this.#terminal.input.resume();
    socket.write('+');
  }

  #over(session: Session): void {
    const at = this.#sessions.indexOf(session);
    if (at === -1) return;
    this.#sessions.splice(at, 1);
    if (at > 0) return;
    this.#release();
    this.#terminal.line(`${session.endpoint} continues`);
    const [next] = this.#sessions;
    if (next !== undefined) this.#begin(next);
  }

  /** What is typed without a session stays for the next one. */
  #release(): void {
    this.#terminal.input.off('data', this.#onInput).off('end', this.#onEnd);
    this.#terminal.input.pause();
  }
}
