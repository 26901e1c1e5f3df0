/** Reads one key from a person at a terminal. */
import type { ReadStream } from 'node:tty';

const INTERRUPT = '\u0003';

/** Returns the pressed key in lower case; null for Ctrl+C and at the end of the input. */
export async function pressedKey(input: ReadStream): Promise<string | null> {
  input.setRawMode(true);
  input.setEncoding('utf8').resume();
  try {
    return await new Promise((resolve) => {
      const onText = (text: string): void => settle(text.startsWith(INTERRUPT) ? null : (text[0] ?? '').toLowerCase());
      const ended = (): void => settle(null);
      const settle = (key: string | null): void => {
        input.off('data', onText);
        input.off('end', ended);
        resolve(key);
      };
      input.on('data', onText);
      input.on('end', ended);
    });
  } finally {
    input.setRawMode(false);
    input.pause();
  }
}
