(component (core module (func (result v128) v128.const i64x2 0 0)))
