// Only a build for a component comes here (the condition `topoloom`): the host provides it.
export { groups } from 'topoloom:discovery/applied@0.1.0';
