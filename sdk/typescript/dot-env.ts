/**
 * Reads one variable of `.env` in the working folder. Returns undefined without such a file, or without a file system
 * (a browser).
 */

interface Node {
  readonly cwd?: () => string;
  readonly getBuiltinModule?: (name: 'node:fs') => { readonly readFileSync: (path: string) => Uint8Array } | undefined;
}

/** Missing, or a folder. */
const ABSENT = ['ENOENT', 'EISDIR', 'ENOTDIR'];

/** @throws TypeError when the file is unreadable. */
export function dotEnvVariable(name: string): string | undefined {
  const { process } = globalThis as { readonly process?: Node };
  const files = process?.getBuiltinModule?.('node:fs');
  const folder = process?.cwd?.();
  if (files === undefined || folder === undefined) return undefined;
  const path = `${folder.replace(/\/$/, '')}/.env`;
  let text: string;
  try {
    text = decoded(files.readFileSync(path));
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
    if (ABSENT.includes(code)) return undefined;
    throw new TypeError(`cannot read ${path} (${code}); pass { apiKey } or set ${name}`, { cause });
  }
  return parseDotEnv(text, name);
}

/** UTF-8, or UTF-16 with a byte order mark, as PowerShell redirects output. */
function decoded(bytes: Uint8Array): string {
  const isUtf16 = (bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff);
  return new TextDecoder(!isUtf16 ? 'utf-8' : bytes[0] === 0xff ? 'utf-16le' : 'utf-16be').decode(bytes);
}

/**
 * Returns the value of the variable's last line `NAME=value`, with optional `export`. A quoted value ends at the
 * closing quote; any other ends at a `#` and is trimmed. Undefined when absent or empty.
 */
export function parseDotEnv(text: string, name: string): string | undefined {
  let value: string | undefined;
  for (const line of text.replace(/^\uFEFF/, '').split(/\r?\n/)) {
    const [, key, given = ''] = /^\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*)$/.exec(line) ?? [];
    if (key !== name) continue;
    const [, quoted] = /^(?:"([^"]*)"|'([^']*)'|`([^`]*)`)/.exec(given)?.filter((part) => part !== undefined) ?? [];
    value = quoted ?? given.replace(/#.*$/, '').trim();
  }
  return value === '' ? undefined : value;
}
