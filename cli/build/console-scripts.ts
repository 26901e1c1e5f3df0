/** The console scripts of installed Python packages (`uvicorn`, `gunicorn`), for hosts with another Python. */
import { open, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const HERE = '#!/usr/bin/env python3\n';
/** `#!/path/python3`, or what installers write where that line would be too long for the system. */
const INTERPRETER = /^#!(?:[^\n]*python[^\n]*\n|\/bin\/sh\n'''exec' [^\n]*python[^\n]*\n' '''\n)/;
/** Longest first lines of a script, bytes. */
const HEAD_BYTES = 4096;

/** Makes scripts run with the `python3` of the worker's PATH instead of this machine's. The folder may be absent. */
export async function makePortable(folder: string): Promise<void> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []); // no package has a script
  for (const entry of entries) {
    const path = join(folder, entry.name);
    if (!entry.isFile() || !INTERPRETER.test(await headOf(path))) continue;
    // Written in place: the file keeps its mode.
    await writeFile(path, (await readFile(path, 'utf8')).replace(INTERPRETER, HERE));
  }
}

async function headOf(path: string): Promise<string> {
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0);
    return buffer.toString('latin1', 0, bytesRead);
  } finally {
    await file.close();
  }
}
