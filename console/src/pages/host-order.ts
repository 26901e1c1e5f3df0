/** The hosts of the overview: those with problems first. Pure. */

interface Host {
  readonly name: string;
  readonly connected: boolean;
  readonly draining: boolean;
  readonly devices: readonly { readonly healthy: boolean }[];
}

/** 0 the worst: it is gone, a GPU of it is unhealthy, it gets no new work, all is well. */
function rankOf({ connected, draining, devices }: Host): number {
  if (!connected) return 0;
  if (devices.some(({ healthy }) => !healthy)) return 1;
  return draining ? 2 : 3;
}

export function toneOf(host: Host): 'critical' | 'warn' | '' {
  return (['critical', 'critical', 'warn', ''] as const)[rankOf(host)] ?? '';
}

export function problemsFirst<T extends Host>(hosts: readonly T[]): readonly T[] {
  return hosts.toSorted((a, b) => rankOf(a) - rankOf(b) || a.name.localeCompare(b.name));
}
