import type { Verb } from './main.ts'; export const info: Verb = () => {};
