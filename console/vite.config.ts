import { defineConfig } from 'vite';

export default defineConfig({
  // The console is served below a prefix that is not known at build time: the gateway sets the document's base.
  base: './',
  resolve: { alias: { react: 'preact/compat', 'react-dom': 'preact/compat', 'react/jsx-runtime': 'preact/jsx-runtime' } },
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  // Data URLs and inline scripts are forbidden by the Content-Security-Policy.
  html: { cspNonce: 'CSP_NONCE' },
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    manifest: 'manifest.json',
    modulePreload: { polyfill: false },
    rolldownOptions: { checks: { moduleLevelDirective: false } },
  },
});
