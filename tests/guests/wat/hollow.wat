;; The name of a discoverer and nothing behind it.
(component (instance $d) (export "topoloom:discovery/discoverer@0.1.0" (instance $d)))
