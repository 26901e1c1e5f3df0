/** Dark and light: as the system, unless the user chose. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

type Theme = 'dark' | 'light';

const STORED = 'capstan-theme';
const system = matchMedia('(prefers-color-scheme: dark)');

/** Storage may be forbidden by the browser's settings: then the choice lasts as long as the page. */
let chosen: Theme | undefined = readChoice();

function readChoice(): Theme | undefined {
  try {
    const stored = localStorage.getItem(STORED);
    return stored === 'dark' || stored === 'light' ? stored : undefined;
  } catch {
    return undefined;
  }
}

function current(): Theme {
  return chosen ?? (system.matches ? 'dark' : 'light');
}

export function applyTheme(): void {
  document.documentElement.dataset['theme'] = current();
}
system.addEventListener('change', applyTheme);

function choose(theme: Theme): void {
  chosen = theme;
  applyTheme();
  try {
    localStorage.setItem(STORED, theme);
  } catch {
    // The choice lasts as long as the page.
  }
}

export function ThemeSwitch(): JSX.Element {
  const [theme, setTheme] = useState(current());
  const other = theme === 'dark' ? 'light' : 'dark';
  return (
    <button
      type="button"
      onClick={() => {
        choose(other);
        setTheme(other);
      }}
    >
      {other === 'dark' ? 'Dark' : 'Light'} theme
    </button>
  );
}
