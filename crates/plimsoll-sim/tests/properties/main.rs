//! What holds for every fleet, every request and every history, tried on many of each.

mod fleet;

mod brute;

mod moves;

mod history;

mod search;

mod races;

mod simulation;

mod shares;

mod advice;

mod evictions;

mod texts;
