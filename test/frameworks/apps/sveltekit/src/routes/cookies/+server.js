import { json } from '@sveltejs/kit';

export const GET = ({ cookies }) => json(Object.fromEntries(cookies.getAll().map(({ name, value }) => [name, value])));
