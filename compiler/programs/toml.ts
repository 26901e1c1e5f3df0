/** Reads TOML with Python; pip, which installs the packages anyway, has a parser where Python has none (before 3.11). */
import { ToolError } from '../../terminal/tool-error.ts';
import { runInstaller } from './run-installer.ts';

const PROGRAM = `
import json, sys
try:
    import tomllib
except ImportError:
    from pip._vendor import tomli as tomllib
found = []
for each in json.load(sys.stdin):
    try:
        found.append(tomllib.loads(each["text"]))
    except ValueError as error:
        sys.exit("toml: %s is not valid TOML: %s" % (each["name"], error))
json.dump(found, sys.stdout, default=str)
`;

export interface TomlText {
  /** Name of the file, for messages. */
  readonly name: string;
  readonly text: string;
}

/** @throws CapstanError INVALID_MANIFEST when a text is not TOML, CONFIG without a parser. */
export async function readToml(texts: readonly TomlText[]): Promise<unknown[]> {
  const { stdout, stderr } = await runInstaller('python3', ['-c', PROGRAM], { cwd: '.', input: JSON.stringify(texts) });
  const fault = /^toml: (.*)$/m.exec(stderr)?.[1];
  if (fault !== undefined) throw new ToolError('INVALID_MANIFEST', fault, 'Correct the file.');
  if (stdout === '')
    throw new ToolError(
      'CONFIG',
      `cannot read ${texts.map(({ name }) => name).join(', ')}: python3 has neither tomllib nor pip`,
      'Install pip: python3 -m ensurepip',
    );
  return JSON.parse(stdout) as unknown[];
}
