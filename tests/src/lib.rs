//! The harness of the end-to-end and component tests.
