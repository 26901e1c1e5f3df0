/** The user's settings of pip (its configuration files and PIP_ variables), as far as uv can take them over. */
import { runInstaller } from '../programs/run-installer.ts';

export interface PipSettings {
  readonly index: string | undefined;
  readonly extraIndexes: readonly string[];
  readonly findLinks: readonly string[];
  readonly noIndex: boolean;
  readonly trustedHosts: readonly string[];
}

/** Without pip there are no settings. */
export async function pipSettings(folder: string): Promise<PipSettings> {
  const { stdout } = await runInstaller('python3', ['-m', 'pip', 'config', 'list'], { cwd: folder });
  return readPipSettings(stdout);
}

/** Reads lines such as `global.index-url='https://…'`; variables precede files, and `install` precedes `global`. */
export function readPipSettings(text: string): PipSettings {
  const found = new Map<string, string>();
  const ranks: readonly string[] = ['global', 'install', ':env:'];
  const lines = text.split('\n').flatMap((line) => {
    const [, section = '', key = '', value = ''] = /^([\w:]+)\.([\w-]+)=(['"])(.*)\3$/.exec(line)?.slice(0, 5).toSpliced(3, 1) ?? [];
    return key === '' || !ranks.includes(section) ? [] : [{ rank: ranks.indexOf(section), key, value }];
  });
  for (const { key, value } of lines.sort((a, b) => a.rank - b.rank)) found.set(key, value);
  const list = (key: string): string[] => (found.get(key) ?? '').split(/\s+|\\n/).filter((each) => each !== '');
  return {
    index: found.get('index-url'),
    extraIndexes: list('extra-index-url'),
    findLinks: list('find-links'),
    noIndex: /^(1|true|yes|on)$/i.test(found.get('no-index') ?? ''),
    trustedHosts: list('trusted-host'),
  };
}
