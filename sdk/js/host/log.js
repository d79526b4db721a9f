// Only a build for a component comes here (the condition `topoloom`): the host provides it.
export { write } from 'topoloom:discovery/log@0.1.0';
