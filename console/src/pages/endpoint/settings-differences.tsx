import type { JSX } from 'preact';

import { Mono, Text } from '../../ui/parts.tsx';
import type { Difference } from './release-differences.ts';

/** Settings, routes and environment names that differ, as a list that opens. */
export function Differences({ of, isOpen = false }: { of: readonly Difference[] | undefined; isOpen?: boolean }): JSX.Element {
  if (of === undefined) return <span class="muted">not known</span>;
  if (of.length === 0) return <span class="muted">same settings and environment names</span>;
  return (
    <details open={isOpen}>
      <summary>{of.length === 1 ? '1 difference' : `${of.length} differences`}</summary>
      <ul class="plain">
        {of.map(({ name, now, earlier }) => (
          <li key={name}>
            <Mono of={name} />: <del>{now === '' ? 'none' : <Text of={now} />}</del> →{' '}
            <ins>{earlier === '' ? 'none' : <Text of={earlier} />}</ins>
          </li>
        ))}
      </ul>
    </details>
  );
}
