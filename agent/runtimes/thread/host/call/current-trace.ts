/**
 * The trace of the job or request that user code works for (W3C Trace Context). The SDK finds it by a symbol, because a build has its own
 * copy of the SDK; OpenTelemetry in the build finds it as the current span.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { createRequire } from 'node:module';
import { join } from 'node:path';

import { traceHeaders, traceOf, traceParent } from '../../../../../lib/trace-context.ts';

/** Under this the SDK reads the current trace. */
const SHARED = Symbol.for('capstan.trace');
/** Where the API of OpenTelemetry keeps what was registered, for all of its copies. */
const REGISTERED = Symbol.for('opentelemetry.js.api.1');

const current = new AsyncLocalStorage<string>();
Object.defineProperty(globalThis, SHARED, { value: () => current.getStore() ?? '', enumerable: false });

/** The part of OpenTelemetry's API that is used here. */
interface Api {
  readonly context: {
    active(): unknown;
    with<T>(context: unknown, run: () => T): T;
    setGlobalContextManager(manager: ContextManager): boolean;
  };
  readonly trace: { setSpanContext(context: unknown, span: object): unknown };
  readonly ROOT_CONTEXT: unknown;
}

let api: Api | undefined;

/** Looks for OpenTelemetry among the packages of the build. To be called when its module is loaded. */
export function findOpenTelemetry(folder: string): void {
  try {
    api = createRequire(join(folder, 'capstan.js'))('@opentelemetry/api') as Api;
  } catch {
    // The build does not have it, or has something else of that name.
    return;
  }
  // Code that sets OpenTelemetry up itself has a context manager of its own.
  const registered = (globalThis as { [REGISTERED]?: { readonly context?: unknown } })[REGISTERED];
  if (registered?.context === undefined) api.context.setGlobalContextManager(new ContextManager(api.ROOT_CONTEXT));
}

/** Runs user code within a trace; empty: without one. */
export function withTrace<T>(trace: string, run: () => T): T {
  if (trace === '') return run();
  const found = api;
  if (found === undefined) return current.run(trace, run);
  const { traceId, spanId, flags } = traceParent(trace);
  const span = found.trace.setSpanContext(found.context.active(), { traceId, spanId, traceFlags: flags, isRemote: true });
  return current.run(trace, () => found.context.with(span, run));
}

/** Returns the header `traceparent` of a trace; undefined without one. */
export function traceparentOf(trace: string): string | undefined {
  return trace === '' ? undefined : traceHeaders(trace).traceparent;
}

/** Returns the trace of an HTTP request. */
export function traceOfHeaders(headers: readonly (readonly [string, string])[]): string {
  const find = (wanted: string): string | undefined => headers.find(([name]) => name === wanted)?.[1];
  const traceparent = find('traceparent');
  return traceparent === undefined ? '' : traceOf(traceparent, find('tracestate'));
}

/** What OpenTelemetry needs to know the current span; its own package for this is not part of its API. */
class ContextManager {
  readonly #contexts = new AsyncLocalStorage<unknown>();
  readonly #root: unknown;

  constructor(root: unknown) {
    this.#root = root;
  }

  active(): unknown {
    return this.#contexts.getStore() ?? this.#root;
  }

  with(context: unknown, run: (...args: unknown[]) => unknown, self?: unknown, ...args: unknown[]): unknown {
    return this.#contexts.run(context, () => run.apply(self, args));
  }

  bind(context: unknown, target: unknown): unknown {
    if (typeof target !== 'function') return target;
    const contexts = this.#contexts;
    return function bound(this: unknown, ...args: unknown[]): unknown {
      return contexts.run(context, () => (target as (...given: unknown[]) => unknown).apply(this, args));
    };
  }

  enable(): this {
    return this;
  }

  disable(): this {
    this.#contexts.disable();
    return this;
  }
}
