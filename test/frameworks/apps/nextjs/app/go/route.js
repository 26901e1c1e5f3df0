import { redirect } from 'next/navigation';

export const dynamic = 'force-dynamic';
export const GET = () => redirect('/items/1');
