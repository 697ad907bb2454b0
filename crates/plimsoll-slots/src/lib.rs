//! Model serving in front of the core.
