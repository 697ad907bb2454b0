//! Tests of the testbed itself: real programs, and the cases that every API server must satisfy.

mod cases;
mod real;
mod simulated;
