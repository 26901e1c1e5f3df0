import { json } from '@sveltejs/kit';

export function GET({ cookies }) {
  cookies.set('seen', 'yes', { path: '/' });
  return json({});
}
