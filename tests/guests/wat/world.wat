(component (instance $thing) (export "acme:other/thing@1.0.0" (instance $thing)))
