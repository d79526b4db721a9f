(component (core module (memory 1 (pagesize 1))))
