/** Locates a declaration in the user's source. */

const ownFolder = import.meta.url.slice(0, import.meta.url.lastIndexOf('/') + 1);

/** Returns `file:line` of the nearest caller outside of this package; empty when the stack has none. */
export function placeOfCaller(): string {
  const lines = (new Error('where').stack ?? '').split('\n').slice(1);
  for (const line of lines) {
    const match = /(file:\/\/[^\s()]+|\/[^\s()]+):(\d+):\d+\)?$/.exec(line);
    if (match === null) continue;
    const [, file = '', number = ''] = match;
    const url = file.startsWith('/') ? `file://${file}` : file;
    if (!url.startsWith(ownFolder)) return `${decodeURIComponent(url.slice('file://'.length))}:${number}`;
  }
  return '';
}
