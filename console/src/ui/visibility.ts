import { useEffect, useState } from 'preact/hooks';

const isVisible = (): boolean => document.visibilityState === 'visible';

/** Whether the page is seen: in a tab behind another one it is not. */
export function useVisible(): boolean {
  const [visible, setVisible] = useState(isVisible);
  useEffect(() => {
    const update = (): void => setVisible(isVisible());
    document.addEventListener('visibilitychange', update);
    return () => document.removeEventListener('visibilitychange', update);
  }, []);
  return visible;
}
