import type { Verb } from './main.ts'; export const cat: Verb = () => {};
