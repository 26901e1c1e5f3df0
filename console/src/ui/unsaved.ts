/** Asks before a page with changes that are not saved is left: by a link of the console, a reload or the end of the tab. */
import { useEffect } from 'preact/hooks';

const QUESTION = 'Your changes are not saved. Leave the page and lose them?';

export function useUnsavedWarning(hasChanges: boolean): void {
  useEffect(() => {
    if (!hasChanges) return undefined;
    const unload = (event: BeforeUnloadEvent): void => event.preventDefault();
    const click = (event: MouseEvent): void => {
      const link = event.target instanceof Element ? event.target.closest('a[href]') : null;
      const isElsewhere = event.ctrlKey || event.metaKey || event.shiftKey || link?.getAttribute('target') === '_blank';
      // oxlint-disable-next-line no-alert -- a link must be decided on at once, as a reload is
      if (link === null || isElsewhere || window.confirm(QUESTION)) return;
      event.preventDefault();
      event.stopPropagation();
    };
    window.addEventListener('beforeunload', unload);
    // Before the link's own listener, which changes the page.
    window.addEventListener('click', click, { capture: true });
    return () => {
      window.removeEventListener('beforeunload', unload);
      window.removeEventListener('click', click, { capture: true });
    };
  }, [hasChanges]);
}
