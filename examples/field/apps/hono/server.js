/** A page and an API of Hono. */
import { Hono } from 'hono';
import { html } from 'hono/html';

export const app = new Hono();
app.get('/', (c) =>
  c.html(
    html`<button>Count</button>
      <output>0</output>
      <script>
        document.querySelector('button').onclick = async () => {
          document.querySelector('output').textContent = (await (await fetch('api/double/21')).json()).value;
        };
      </script>`,
  ),
);
app.get('/api/double/:n', (c) => c.json({ value: 2 * Number(c.req.param('n')) }));
