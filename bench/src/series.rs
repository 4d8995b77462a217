//! The order in which variants are measured, and what is made of the figures.

use crate::exec::interrupted;
use crate::variant::Variant;

/// One measurement of one variant in one round.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// The figure that the work is about.
    pub value: f64,
    /// Other figures of the same measurement, by name.
    pub besides: Vec<(&'static str, f64)>,
}

/// What became of one variant over all rounds.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The samples, each with its round.
    Measured(Vec<(usize, Sample)>),
    /// It failed once, so nothing it produced counts.
    Failed(String),
    /// It cannot run on this machine.
    Unavailable(String),
}

/// Minimum, quartiles and median of some figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The smallest.
    pub min: f64,
    /// A quarter of the figures are at most this.
    pub p25: f64,
    /// Half of the figures are at most this.
    pub median: f64,
    /// Three quarters of the figures are at most this.
    pub p75: f64,
}

impl Spread {
    /// The spread of `figures`, or nothing if there are none.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let figures: Vec<f64> = figures.into_iter().collect();
        Some(Self {
            min: quantile(&figures, 0.0)?,
            p25: quantile(&figures, 0.25)?,
            median: quantile(&figures, 0.5)?,
            p75: quantile(&figures, 0.75)?,
        })
    }
}

/// The figure below which the share `q` of `figures` lies, or nothing if there are none.
pub fn quantile(figures: &[f64], q: f64) -> Option<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = q * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    Some(low + (high - low) * at.fract())
}

/// The median of `figures`, or nothing if there are none.
pub fn median(figures: impl IntoIterator<Item = f64>) -> Option<f64> {
    Spread::of(figures).map(|spread| spread.median)
}

/// Pairs each sample of `samples` with the sample of `base` of the same round.
pub fn paired<'a>(
    samples: &'a [(usize, Sample)],
    base: &'a [(usize, Sample)],
) -> impl Iterator<Item = (f64, f64)> + 'a {
    samples.iter().filter_map(|(round, sample)| {
        let (_, base) = base.iter().find(|(other, _)| other == round)?;
        Some((sample.value, base.value))
    })
}

/// Measures every variant once per round, for `rounds` rounds. Each round begins with
/// another variant, so that none always runs in the wake of the same neighbour. A variant
/// that fails is not run again.
pub fn interleave(
    rounds: usize,
    variants: &[Variant],
    mut measure: impl FnMut(&Variant) -> Result<Sample, String>,
) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = variants
        .iter()
        .map(|variant| match (&variant.unavailable, &variant.broken) {
            (Some(reason), _) => Outcome::Unavailable(reason.clone()),
            (None, Some(reason)) => Outcome::Failed(reason.clone()),
            (None, None) => Outcome::Measured(Vec::new()),
        })
        .collect();
    for round in 0..rounds {
        for position in 0..variants.len() {
            if interrupted() {
                return outcomes;
            }
            let index = (position + round) % variants.len();
            let variant = &variants[index];
            let Outcome::Measured(samples) = &mut outcomes[index] else { continue };
            if round >= variant.most_rounds {
                continue;
            }
            match measure(variant) {
                Ok(sample) => samples.push((round, sample)),
                Err(reason) => outcomes[index] = Outcome::Failed(reason),
            }
        }
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_interpolates() {
        let spread = Spread::of([4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(spread, Spread { min: 1.0, p25: 1.75, median: 2.5, p75: 3.25 });
        assert_eq!(Spread::of([]), None);
        assert_eq!(median([7.0]), Some(7.0));
    }

    #[test]
    fn pairs_by_round() {
        let sample = |value| Sample { value, besides: Vec::new() };
        let base = [(0, sample(1.0)), (1, sample(2.0))];
        let other = [(1, sample(5.0)), (2, sample(9.0))];
        assert_eq!(paired(&other, &base).collect::<Vec<_>>(), [(5.0, 2.0)]);
    }

    #[test]
    fn a_failure_leaves_no_number() {
        let variants = [Variant::native(), Variant::strace()];
        let mut turns = 0;
        let outcomes = interleave(3, &variants, |variant| {
            turns += 1;
            if turns > 2 && !variant.is_native() {
                return Err("crashed".into());
            }
            Ok(Sample::default())
        });
        assert!(matches!(&outcomes[0], Outcome::Measured(samples) if samples.len() == 3));
        assert!(
            matches!(&outcomes[1], Outcome::Failed(reason) if reason == "crashed")
                || matches!(outcomes[1], Outcome::Unavailable(_))
        );
    }
}
