(module (func (export "discover")))
