(component (import "topoloom:discovery/nodes@0.3.1" (instance)))
