(component (core module (type $f (func)) (func (param (ref $f)))))
