/** The gateway's log: JSON lines on stderr, without secrets. */
import { hostname } from 'node:os';

import { destination, pino, type Logger } from 'pino';

import { visibleText } from '../lib/visible-text.ts';

export type Log = Pick<Logger, 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal'>;

/** `fields` are on every line. */
export function createLog(level: string, fields: Readonly<Record<string, unknown>> = {}): Logger {
  return pino(
    {
      name: 'gateway',
      base: { pid: process.pid, hostname: hostname(), ...fields },
      level,
      hooks: { streamWrite: visibleText },
      redact: {
        paths: ['authorization', '*.authorization', '*.headers.authorization', 'token', '*.token', '*.s3Config', '*.accessSecret'],
        censor: '[secret]',
      },
    },
    destination({ fd: 2, sync: true }),
  );
}
