import { QueryClientProvider } from '@tanstack/react-query';
import { render } from 'preact';

import { client } from './api/live.ts';
import { App } from './app.tsx';
import { applyTheme } from './ui/theme.tsx';
import './style.css';

applyTheme();
const root = document.querySelector('#root');
if (root === null) throw new Error('the document has no #root');
render(
  <QueryClientProvider client={client}>
    <App />
  </QueryClientProvider>,
  root,
);
