package objects

// Default fills in what the API server would, as far as the scheduler depends on it.
func Default(obj Object) {}
