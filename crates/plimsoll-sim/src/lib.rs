//! Scenarios as text, and an independent witness for the core of Plimsoll.
