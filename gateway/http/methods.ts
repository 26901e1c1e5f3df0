/** The methods that a path allows, for 405 and OPTIONS; the router itself only knows hit or miss. */

interface Known {
  readonly pattern: RegExp;
  readonly methods: Set<string>;
}

export class AllowedMethods {
  readonly #routes = new Map<string, Known>();

  add(url: string, method: string | readonly string[]): void {
    const known = this.#routes.get(url) ?? { pattern: patternOf(url), methods: new Set() };
    for (const one of typeof method === 'string' ? [method] : method) known.methods.add(one);
    this.#routes.set(url, known);
  }

  /** All routes, as `GET /v2/:endpointId/health`. */
  list(): string[] {
    return [...this.#routes].flatMap(([url, { methods }]) => [...methods].map((method) => `${method} ${url}`));
  }

  /** Returns `GET, POST` for a path that has routes, else null. */
  of(url: string): string | null {
    const path = url.split('?', 1)[0] ?? '';
    const allowed = new Set<string>();
    for (const { pattern, methods } of this.#routes.values()) {
      if (pattern.test(path)) for (const method of methods) allowed.add(method);
    }
    return allowed.size === 0 ? null : [...allowed].sort().join(', ');
  }
}

function patternOf(url: string): RegExp {
  const escaped = url
    .replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)
    .replaceAll(/:\w+/g, '[^/]+')
    .replace(/\\\*$/, '.+');
  return new RegExp(`^${escaped.replace(/\/$/, '')}/?$`);
}
