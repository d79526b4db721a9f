(component (import "topoloom:weather/forecast@0.1.0" (instance)))
