import type { Verb } from './main.ts'; export const ls: Verb = () => {};
