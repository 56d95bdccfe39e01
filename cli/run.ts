import type { Verb } from './main.ts'; export const run: Verb = () => {};
