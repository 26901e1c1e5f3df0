/** Compiles sources with decorators, which neither JavaScript nor Node has. */
import { createRequire } from 'node:module';

import type { CompiledSource } from './loader-rules.ts';
import type { DecoratorOptions } from './tsconfig.ts';

/** What is used of the compiler. Its types are not imported: it is loaded only where decorators are. */
interface Compiler {
  transformSync(source: string, options: object): { readonly code: string };
}

const COMPILER = '@swc/wasm';
/** Targets of TypeScript since which fields are defined by default. */
const DEFINES = /^(es(2022|2023|2024|2025|2026|next))$/i;

export interface DecoratedSource {
  /** Relative to the project. */
  readonly path: string;
  readonly text: string;
  readonly isEsm: boolean;
}

/**
 * Returns the JavaScript of a source, with its decorators as calls and a source map. Without `experimentalDecorators` they
 * are those of the standard. Throws the compiler's error.
 */
export function compileDecorators({ path, text, isEsm }: DecoratedSource, options: DecoratorOptions): CompiledSource {
  const { experimentalDecorators = false, emitDecoratorMetadata = false, target = '' } = options;
  const compiler = createRequire(import.meta.url)(COMPILER) as Compiler;
  const isTypeScript = /\.[mc]?ts$/.test(path);
  const { code } = compiler.transformSync(text, {
    filename: path,
    sourceMaps: 'inline',
    isModule: isEsm,
    swcrc: false,
    configFile: false,
    jsc: {
      target: 'es2022',
      keepClassNames: true,
      parser: isTypeScript ? { syntax: 'typescript', decorators: true } : { syntax: 'ecmascript', decorators: true },
      transform: {
        ...(experimentalDecorators ? { legacyDecorator: true, decoratorMetadata: emitDecoratorMetadata } : { decoratorVersion: '2022-03' }),
        // Standard decorators came with fields that are defined.
        useDefineForClassFields: options.useDefineForClassFields ?? (!experimentalDecorators || DEFINES.test(target)),
      },
    },
  });
  return { source: code, format: isEsm ? 'module' : 'commonjs' };
}
