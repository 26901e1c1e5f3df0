/**
 * Generates proto/gen from the messages: lints them, then runs the generators of buf.gen.yaml (all messages) and of buf.gen.json.yaml (the
 * JSON form of an endpoint, the only message that has one).
 *
 *   node proto/generate.ts           writes proto/gen
 *   node proto/generate.ts --check   writes nothing; names what differs and exits with 1
 */
import { spawnSync } from 'node:child_process';
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..');
const GENERATED = 'proto/gen';
/** In this order: the first one empties the folder of both. */
const TEMPLATES = ['buf.gen.yaml', 'buf.gen.json.yaml'];

/** Runs buf in the root; its own messages go to the terminal. */
function buf(args: readonly string[]): void {
  // Run directly (not by an npm script), PATH may lack the folder where buf and its plugin lie.
  const path = [join(root, 'node_modules/.bin'), process.env['PATH'] ?? ''].join(delimiter); // oxlint-disable-line no-process-env -- a tool of the checkout, not a part with a configuration
  const run = spawnSync('buf', args, { cwd: root, stdio: ['ignore', 'inherit', 'inherit'], env: { ...process.env, PATH: path } }); // oxlint-disable-line no-process-env -- as above
  if (run.error !== undefined) throw run.error;
  if (run.status !== 0) {
    console.error(`buf ${args.join(' ')} failed`);
    process.exit(run.status ?? 1);
  }
}

/** Generated files below a folder: path relative to it → content. */
function contents(folder: string): Map<string, string> {
  const files = globSync('**/*.ts', { cwd: folder });
  return new Map(files.sort().map((file) => [file, readFileSync(join(folder, file), 'utf8')]));
}

/** One line per file that is missing, left over or different. */
function differences(committed: Map<string, string>, fresh: Map<string, string>): string[] {
  const names = [...new Set([...committed.keys(), ...fresh.keys()])].sort();
  return names.flatMap((name) => {
    const before = committed.get(name);
    const after = fresh.get(name);
    if (before === after) return [];
    if (before === undefined) return [`${GENERATED}/${name} is missing`];
    if (after === undefined) return [`${GENERATED}/${name} is left over`];
    const left = before.split('\n');
    const right = after.split('\n');
    const line = left.findIndex((text, index) => text !== right[index]);
    const at = line === -1 ? left.length : line;
    return [`${GENERATED}/${name} differs from line ${at + 1}\n  - ${left[at] ?? '(end)'}\n  + ${right[at] ?? '(end)'}`];
  });
}

buf(['lint']);
if (process.argv.includes('--check')) {
  const scratch = mkdtempSync(join(tmpdir(), 'capstan-generate-'));
  try {
    // The plugin's output folder of buf.gen.yaml is taken relative to --output.
    for (const template of TEMPLATES) buf(['generate', '--template', template, '--output', scratch]);
    const found = differences(contents(join(root, GENERATED)), contents(join(scratch, GENERATED)));
    if (found.length > 0) {
      console.error(`${found.join('\n')}\nThe generated code is not that of the messages: run 'npm run generate'.`);
      process.exitCode = 1;
    }
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
} else {
  for (const template of TEMPLATES) buf(['generate', '--template', template]);
}
