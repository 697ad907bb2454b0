//! Properties of every fleet, request and history, tried on many of each.

mod fleet;

mod brute;

mod moves;

mod history;

mod search;

mod races;

mod simulation;

mod shares;

mod accounts;

mod advice;

mod evictions;

mod turns;

mod texts;
