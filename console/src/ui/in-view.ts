import { useEffect, useRef } from 'preact/hooks';

/** Returns the reference of a list of links, whose current one is scrolled into view: on a phone such lists scroll sideways. */
export function useCurrentInView(current: string): { readonly current: HTMLElement | null } {
  const list = useRef<HTMLElement>(null);
  useEffect(() => list.current?.querySelector('[aria-current=page]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' }), [current]);
  return list;
}
