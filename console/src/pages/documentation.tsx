/** A page of the service's own documentation, with its links alive: what incidents and alerts refer to. */
import type { JSX } from 'preact';
import { useEffect } from 'preact/hooks';

import { useLive } from '../api/live.ts';
import { Markdown } from '../ui/markdown.tsx';
import { Loaded, Page } from '../ui/parts.tsx';

const PAGES = import.meta.glob<string>('../../../docs/*.md', { query: '?raw', import: 'default' });

export function DocumentationPage({ params }: { params: { page: string } }): JSX.Element {
  const { page } = params;
  const query = useLive(['documentation', page], async () => (await PAGES[`../../../docs/${page}`]?.()) ?? null, false);
  const text = query.data;
  const title = /^# (.+)$/m.exec(text ?? '')?.[1] ?? page;
  useEffect(() => {
    if (text != null && location.hash !== '') document.querySelector(`[id="${CSS.escape(location.hash.slice(1))}"]`)?.scrollIntoView();
  }, [text]);
  return (
    <Page title={title}>
      <Loaded query={query}>
        {(found) => (found === null ? <p>There is no such page.</p> : <Markdown text={found.replace(/^# .+\n/m, '')} />)}
      </Loaded>
    </Page>
  );
}
