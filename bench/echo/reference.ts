/** Starts the echo server as a process. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

export interface Echo {
  /** Address to POST to. */
  readonly url: string;
  close(): Promise<void>;
}

export async function startEcho(): Promise<Echo> {
  const child = fork(join(import.meta.dirname, 'server.ts'), { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  const [message] = (await Promise.race([
    once(child, 'message'),
    once(child, 'exit').then(([code]: unknown[]) => {
      throw new Error(`the echo ended with ${String(code)} before it served`);
    }),
  ])) as [{ url: string }];
  return {
    url: `${message.url}/echo`,
    async close() {
      const exited = once(child, 'exit');
      child.kill('SIGTERM');
      await exited;
    },
  };
}
