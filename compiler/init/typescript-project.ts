/** A new project in TypeScript. */
import { ENV_EXAMPLE, readme } from './shared-files.ts';

export function typescriptProject(name: string): Readonly<Record<string, string>> {
  const json = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;
  return {
    'gpu_worker.ts': `import { endpoint } from '@capstan/sdk';

/** A vector of the text's letters; put a model here. With a GPU: gpu: GpuGroup.ANY among the settings. */
export const embed = endpoint({ name: '${name}-embed', workers: [0, 3], idleTimeout: 300 }, async (text: string) => {
  const letters = [...'abcdefghijklmnopqrstuvwxyz'];
  return { vector: letters.map((letter) => text.toLowerCase().split(letter).length - 1) };
});
`,
    'cpu_worker.ts': `import { endpoint } from '@capstan/sdk';

/** The document most like the query. */
export const search = endpoint(
  { name: '${name}-search', workers: [0, 3], idleTimeout: 300 },
  async (query: string, documents: string[] = ['apple pie', 'pear tree', 'plum jam']) => {
    // Deployed, this import gives a stub: the call runs at the other endpoint.
    const { embed } = await import('./gpu_worker.ts');
    const wanted = (await embed(query)).vector;
    let best = { document: '', likeness: -1 };
    for (const document of documents) {
      const { vector } = await embed(document);
      const likeness = vector.reduce((sum, count, i) => sum + count * (wanted[i] ?? 0), 0);
      if (likeness > best.likeness) best = { document, likeness };
    }
    return { query, best: best.document };
  },
);
`,
    'lb_worker.ts': `import { Endpoint } from '@capstan/sdk';

const api = new Endpoint({ name: '${name}-api', workers: [1, 3] });

export const health = api.get('/health', () => ({ status: 'ok', service: '${name}' }));

export const count = api.post('/count', (text: string) => ({
  text,
  words: text.split(/\\s+/).filter((word) => word !== '').length,
}));
`,
    'package.json': json({ name, version: '0.1.0', private: true, type: 'module', dependencies: {} }),
    'tsconfig.json': json({
      compilerOptions: {
        target: 'es2024',
        module: 'nodenext',
        strict: true,
        noEmit: true,
        allowImportingTsExtensions: true,
        erasableSyntaxOnly: true,
        verbatimModuleSyntax: true,
        skipLibCheck: true,
      },
    }),
    '.env.example': ENV_EXAMPLE,
    '.gitignore': '.env\n.tool/\nnode_modules/\n',
    'README.md': readme(name, 'ts'),
  };
}
