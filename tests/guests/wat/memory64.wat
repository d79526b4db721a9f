(component (core module (memory i64 1)))
