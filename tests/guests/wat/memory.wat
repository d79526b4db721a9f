;; Starts with 1 GiB.
(component
  (core module $m (memory 16384))
  (core instance (instantiate $m))
  (instance $d) (export "topoloom:discovery/discoverer@0.1.0" (instance $d)))
