// Only a build for a component comes here (the condition `topoloom`): the host provides it.
export { send, credentialOf } from 'topoloom:discovery/http@0.1.0';
