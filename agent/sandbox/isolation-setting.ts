/** Values of CAPSTAN_ISOLATION. */
export const ISOLATION_SETTINGS = ['auto', 'sandbox', 'user', 'none'] as const;
export type IsolationSetting = (typeof ISOLATION_SETTINGS)[number];
