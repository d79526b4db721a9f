//! What a plugin may do and how its calls end, as plain values.
