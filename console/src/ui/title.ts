/** The title of the tab and its icon: what the tab says while another one is in front. */

const state = { page: '', isStale: false, incidents: 0 };

/** Changes what the tab says. */
export function setTitle(change: Partial<typeof state>): void {
  Object.assign(state, change);
  document.title = `${state.isStale ? '⚠ Not live – ' : ''}${state.incidents > 0 ? `(${state.incidents}) ` : ''}${state.page} – Capstan`;
  const icon = document.querySelector('link[rel=icon]');
  const href = state.isStale ? './icon-stale.svg' : './icon.svg';
  if (icon !== null && icon.getAttribute('href') !== href) icon.setAttribute('href', href);
}
