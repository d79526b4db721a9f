;; Ten memories, one in each of ten core modules: no single one is too large.
(component
  (core module $m1 (memory 900)) (core instance (instantiate $m1))
  (core module $m2 (memory 900)) (core instance (instantiate $m2))
  (core module $m3 (memory 900)) (core instance (instantiate $m3))
  (core module $m4 (memory 900)) (core instance (instantiate $m4))
  (core module $m5 (memory 900)) (core instance (instantiate $m5))
  (core module $m6 (memory 900)) (core instance (instantiate $m6))
  (core module $m7 (memory 900)) (core instance (instantiate $m7))
  (core module $m8 (memory 900)) (core instance (instantiate $m8))
  (core module $m9 (memory 900)) (core instance (instantiate $m9))
  (core module $m10 (memory 900)) (core instance (instantiate $m10))
  (instance $d) (export "topoloom:discovery/discoverer@0.1.0" (instance $d)))
