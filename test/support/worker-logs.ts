/** Reads the log segments of an agent's data folder. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { zstdDecompressSync } from 'node:zlib';

/** Returns the stored lines of an endpoint, as JSON lines, oldest first. `logs`: the folder of all logs. */
export async function storedLog(logs: string, endpointId: string): Promise<string> {
  const folder = join(logs, endpointId);
  const names = (await readdir(folder).catch(() => [])).filter((name) => /\.ndjson(\.zst)?$/.test(name)).toSorted();
  const texts = await Promise.all(
    names.map(async (name) => {
      const bytes = await readFile(join(folder, name));
      return (name.endsWith('.zst') ? zstdDecompressSync(bytes) : bytes).toString();
    }),
  );
  return texts.join('');
}
