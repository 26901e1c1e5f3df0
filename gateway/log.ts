/** The gateway's log: JSON lines on stderr, without secrets. */
import { destination, pino, type Logger } from 'pino';

import { visibleText } from '../lib/visible-text.ts';

export type Log = Pick<Logger, 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal'>;

export function createLog(level: string): Logger {
  return pino(
    {
      name: 'gateway',
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
