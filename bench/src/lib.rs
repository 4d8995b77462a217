//! The benches: what a gate costs, set beside doing without it and beside its peers.
//!
//! Owns: the variants ([`variant`]), how they are run and timed ([`exec`]), the order of
//! measuring and the statistics ([`series`]), and the one table that comes out
//! ([`report`]). [`hook`] holds the works that are measured and the figures they must
//! reach.
//!
//! Rules that every bench here keeps:
//! - All variants of a work are measured in one run, round-robin within each round, so that
//!   what drifts (clock, neighbours, page cache) hits all of them alike. What is compared
//!   is each round's figure with the native figure of the same round.
//! - A variant that crashes, hangs or answers wrongly shows why, and never a number.
//! - A figure never includes what it does not name: micro figures are timed inside the
//!   program, processor time of a program is taken inside the tracer.

pub mod exec;
pub mod hook;
pub mod json;
pub mod report;
pub mod series;
pub mod variant;
