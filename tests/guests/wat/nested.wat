(component (component (component (component))))
