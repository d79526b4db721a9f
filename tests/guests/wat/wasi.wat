(component (import "wasi:cli/stdout@0.2.0" (instance)))
