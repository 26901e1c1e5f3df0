/** The frames of a host's messages: a header, and a body of the message's text or bytes. */
import { MAX_LOG_CHARACTERS, type FromHost, type FromThread } from '../host-protocol.ts';

const NOTHING = new Uint8Array();

export type SendFrame = (header: object, body: Uint8Array) => void;

/** Sends a message: one frame, or as many as a long text of lines needs. */
export function sendMessage(message: FromThread | Exclude<FromHost, { t: FromThread['t'] }>, send: SendFrame): void {
  if ('bytes' in message) {
    const { bytes, ...header } = message;
    send(header, bytes);
    return;
  }
  switch (message.t) {
    case 'log': {
      const { text, ...header } = message;
      for (const piece of piecesOf(text)) send(header, Buffer.from(piece));
      break;
    }
    case 'failed': {
      const { error, ...header } = message;
      send(header, Buffer.from(error));
      break;
    }
    case 'load-failed':
    case 'died':
      send({ t: message.t }, Buffer.from(message.detail));
      break;
    case 'http-failed':
      send({ t: message.t, key: message.key }, Buffer.from(message.message));
      break;
    default:
      send(message, NOTHING);
  }
}

/** Parts of at most MAX_LOG_CHARACTERS, which end with a line where one ends, and never within a character. */
function* piecesOf(text: string): Generator<string> {
  for (let from = 0; from < text.length || from === 0;) {
    const end = from + MAX_LOG_CHARACTERS;
    const line = end < text.length ? text.lastIndexOf('\n', end - 1) + 1 : 0;
    const cut = end >= text.length ? text.length : line > from ? line : isLowSurrogate(text, end) ? end - 1 : end;
    yield text.slice(from, cut);
    from = cut;
    if (cut === 0) return;
  }
}

function isLowSurrogate(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff;
}
