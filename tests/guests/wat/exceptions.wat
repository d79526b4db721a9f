(component (core module (tag $t) (func throw $t)))
