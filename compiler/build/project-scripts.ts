/**
 * Programs of the project itself: `[project.scripts]` of `pyproject.toml`. An installation of the project would write them; a build
 * packs its sources and installs only what it requires.
 */
import { z } from 'zod';

import { readText } from '../../terminal/text-file.ts';
import { PYTHON_PACKAGES, type GeneratedFile } from '../artifact/generated.ts';
import { RELOCATABLE, SCRIPTS } from './python-scripts.ts';
import { readToml } from '../programs/toml.ts';
import { PYPROJECT } from './uv-sources.ts';

const scripts = z.record(z.string(), z.unknown()).default({});
const schema = z.looseObject({
  project: z.looseObject({ scripts }).optional(),
  tool: z.looseObject({ poetry: z.looseObject({ scripts }).optional() }).optional(),
});
const NAME = /^[A-Za-z0-9][\w.-]*$/;
/** `package.module:function`, or an attribute of an object; extras after it have no effect. */
const TARGET = /^([\p{L}_][\p{L}\p{N}_.]*):([\p{L}_][\p{L}\p{N}_.]*)\s*(?:\[.*\])?$/u;

/** `roots`: folders besides the project's own that its imports start from. Returns a program for each script. */
export async function projectScripts(folder: string, roots: readonly string[]): Promise<GeneratedFile[]> {
  const text = (await readText(folder, PYPROJECT)) ?? '';
  if (!text.includes('scripts')) return [];
  const [content] = await readToml([{ name: PYPROJECT, text }]);
  const { project, tool } = schema.safeParse(content).data ?? {};
  return Object.entries({ ...tool?.poetry?.scripts, ...project?.scripts }).flatMap(([name, target]) => {
    const [, module, callable] = TARGET.exec(typeof target === 'string' ? target.trim() : '') ?? [];
    if (!NAME.test(name) || module === undefined || callable === undefined) return [];
    return [{ path: `${PYTHON_PACKAGES}/${SCRIPTS}/${name}`, content: programOf({ module, callable, roots }), isProgram: true }];
  });
}

function programOf({
  module,
  callable,
  roots,
}: {
  readonly module: string;
  readonly callable: string;
  readonly roots: readonly string[];
}): string {
  const [first = '', ...attributes] = callable.split('.');
  return `${RELOCATABLE}import os
import sys

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path[0:1] = [root] + [os.path.join(root, each) for each in ${JSON.stringify(roots)}]
from ${module} import ${first}

sys.exit(${[first, ...attributes].join('.')}())
`;
}
