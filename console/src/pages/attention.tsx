import type { JSX } from 'preact';
import { Link } from 'wouter-preact';

import { useLive } from '../api/live.ts';
import { graphql } from '../api/request.ts';
import { time } from '../ui/format.ts';
import { Badge, Loaded, Section, Text } from '../ui/parts.tsx';
import { RunbookSection } from './runbook.tsx';

interface Item {
  readonly kind: string;
  readonly since: string | null;
  readonly endpoint: string | null;
  readonly node: string | null;
  readonly message: string;
  readonly runbook: string;
}

const QUERY = `{ attention { omitted items { kind since endpoint node message runbook } } }`;

/** What needs a person now, each with the section of the runbook that says what to do. */
export function NeedsAttention(): JSX.Element {
  const query = useLive(
    ['attention'],
    (signal) => graphql<{ attention: { omitted: number; items: readonly Item[] } }>(QUERY, {}, signal),
    5_000,
  );
  return (
    <Section title="Needs attention">
      <Loaded query={query}>
        {({ attention: { items, omitted } }) =>
          items.length === 0 ? (
            <p class="muted">Nothing.</p>
          ) : (
            <ul class="plain">
              {items.map((item) => (
                <li key={`${item.kind}-${item.endpoint ?? ''}-${item.node ?? ''}-${item.message}`}>
                  <Badge state={item.kind} />{' '}
                  {item.endpoint === null ? (
                    <Text of={item.message} />
                  ) : (
                    <Link href={`/endpoints/${encodeURIComponent(item.endpoint)}`}>
                      <Text of={item.message} />
                    </Link>
                  )}{' '}
                  {item.since !== null && <span class="muted">since {time(item.since)}</span>}
                  <RunbookSection address={item.runbook} />
                </li>
              ))}
              {omitted > 0 && <li>{omitted} more are not listed.</li>}
            </ul>
          )
        }
      </Loaded>
    </Section>
  );
}
