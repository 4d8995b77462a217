//! The one table: what was measured, what it had to reach, and whether it did; as text, as
//! Markdown and as JSON.

use comfy_table::{CellAlignment, Table, presets};

use crate::json::Value;
use crate::series::{Outcome, Sample, Spread, median, paired};
use crate::variant::{NATIVE, Variant};

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// Microseconds.
    Microseconds,
    /// Milliseconds.
    Milliseconds,
    /// Kibibytes.
    Kibibytes,
}

impl Unit {
    /// Its symbol.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Microseconds => "µs",
            Self::Milliseconds => "ms",
            Self::Kibibytes => "KiB",
        }
    }
}

/// What a figure must reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// At most this much more than native.
    Added(f64),
    /// At most this much more than native, minimum against minimum: for what takes
    /// nanoseconds, where a disturbance is larger than the difference.
    AddedAtMinima(f64),
    /// At most this many times native.
    Ratio(f64),
    /// At most this, whatever native is.
    Value(f64),
}

/// The figures of one variant of one work.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Spread over the rounds.
    pub spread: Spread,
    /// Number of rounds.
    pub rounds: usize,
    /// Median over the rounds of the difference to native in the same round.
    pub added: Option<f64>,
    /// Difference of the minima, which on a disturbed machine is steadier.
    pub added_at_minimum: Option<f64>,
    /// Median over the rounds of the ratio to native in the same round.
    pub ratio: Option<f64>,
    /// Medians of what was measured besides.
    pub besides: Vec<(&'static str, f64)>,
}

/// One row: a variant of a work.
#[derive(Clone, Debug)]
pub struct Row {
    /// The variant.
    pub variant: String,
    /// Its figures, or why there are none.
    pub figures: Result<Figures, String>,
    /// What they must reach.
    pub goal: Option<Goal>,
}

impl Row {
    /// Whether the goal was reached; nothing where there is no goal.
    pub fn met(&self) -> Option<bool> {
        let goal = self.goal?;
        let reached = self.figures.as_ref().ok().and_then(|figures| match goal {
            Goal::Added(most) => Some(figures.added? <= most),
            Goal::AddedAtMinima(most) => Some(figures.added_at_minimum? <= most),
            Goal::Ratio(most) => Some(figures.ratio? <= most),
            Goal::Value(most) => Some(figures.spread.median <= most),
        });
        Some(reached.unwrap_or(false))
    }
}

/// All rows of one work.
#[derive(Clone, Debug)]
pub struct Work {
    /// What was measured.
    pub name: String,
    /// In what its figures are.
    pub unit: Unit,
    /// One per variant.
    pub rows: Vec<Row>,
}

impl Work {
    /// Makes rows of the outcomes of `variants`; `goals` names variants.
    pub fn new(
        name: impl Into<String>,
        unit: Unit,
        variants: &[Variant],
        outcomes: Vec<Outcome>,
        goals: &[(&str, Goal)],
    ) -> Self {
        let native: Vec<(usize, Sample)> = variants
            .iter()
            .zip(&outcomes)
            .find_map(|(variant, outcome)| match outcome {
                Outcome::Measured(samples) if variant.is_native() => Some(samples.clone()),
                _ => None,
            })
            .unwrap_or_default();
        let rows = variants
            .iter()
            .zip(outcomes)
            .map(|(variant, outcome)| Row {
                variant: variant.name.clone(),
                figures: match outcome {
                    Outcome::Measured(samples) => figures(&samples, &native, variant.is_native()),
                    Outcome::Failed(reason) => Err(format!("failed: {reason}")),
                    Outcome::Unavailable(reason) => Err(format!("not here: {reason}")),
                },
                goal: goals.iter().find(|(name, _)| *name == variant.name).map(|(_, goal)| *goal),
            })
            .collect();
        Self { name: name.into(), unit, rows }
    }

    /// A work that could not be measured at all.
    pub fn absent(name: impl Into<String>, reason: &str) -> Self {
        let row =
            Row { variant: NATIVE.into(), figures: Err(format!("not here: {reason}")), goal: None };
        Self { name: name.into(), unit: Unit::Milliseconds, rows: vec![row] }
    }
}

fn figures(
    samples: &[(usize, Sample)],
    native: &[(usize, Sample)],
    is_native: bool,
) -> Result<Figures, String> {
    let spread =
        Spread::of(samples.iter().map(|(_, sample)| sample.value)).ok_or("failed: no samples")?;
    let (mut added, mut ratio, mut added_at_minimum) = (None, None, None);
    if !is_native {
        let lowest = Spread::of(native.iter().map(|(_, sample)| sample.value));
        added_at_minimum = lowest.map(|lowest| spread.min - lowest.min);
        added = median(paired(samples, native).map(|(value, base)| value - base));
        ratio = median(paired(samples, native).map(|(value, base)| value / base));
    }
    let names = samples.first().map(|(_, sample)| sample.besides.clone()).unwrap_or_default();
    let besides = names
        .iter()
        .enumerate()
        .filter_map(|(i, (name, _))| {
            let all = samples.iter().filter_map(|(_, sample)| Some(sample.besides.get(i)?.1));
            Some((*name, median(all)?))
        })
        .collect();
    Ok(Figures { spread, rounds: samples.len(), added, added_at_minimum, ratio, besides })
}

/// Everything that one run of a bench has to say.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The machine and the programs, by name.
    pub circumstances: Vec<(String, String)>,
    /// The works, in order.
    pub works: Vec<Work>,
}

impl Report {
    /// The table; `markdown` makes it one that can be pasted into a document.
    pub fn table(&self, markdown: bool) -> String {
        let mut table = Table::new();
        table.load_style(if markdown {
            presets::ASCII_MARKDOWN
        } else {
            presets::UTF8_FULL_CONDENSED
        });
        table.set_header([
            "work",
            "variant",
            "min",
            "median",
            "p25–p75",
            "added",
            "at minima",
            "ratio",
            "must be",
            "met",
            "besides",
        ]);
        for column in table.column_iter_mut().skip(2).take(6) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        for work in &self.works {
            for (i, row) in work.rows.iter().enumerate() {
                let name = match (i, markdown) {
                    (0, _) | (_, true) => format!("{}, {}", work.name, work.unit.symbol()),
                    _ => String::new(),
                };
                table.add_row(cells(name, row, work.unit));
            }
            if !markdown {
                table.add_row([""; 11]);
            }
        }
        table.to_string()
    }

    /// Everything, with every figure in full.
    pub fn json(&self) -> Value {
        let text = |text: &String| Value::from(text.as_str());
        Value::object([
            (
                "circumstances",
                Value::object(self.circumstances.iter().map(|(k, v)| (k.clone(), text(v)))),
            ),
            (
                "works",
                Value::Array(
                    self.works
                        .iter()
                        .map(|work| {
                            Value::object([
                                ("name", text(&work.name)),
                                ("unit", work.unit.symbol().into()),
                                ("variants", Value::Array(work.rows.iter().map(row).collect())),
                            ])
                        })
                        .collect(),
                ),
            ),
        ])
    }
}

fn cells(name: String, row: &Row, unit: Unit) -> Vec<String> {
    let must = row.goal.map(|goal| goal_text(goal, unit)).unwrap_or_default();
    let met = match row.met() {
        Some(true) => "yes",
        Some(false) => "no",
        None => "",
    };
    let mut cells = vec![name, row.variant.clone()];
    match &row.figures {
        Ok(figures) => {
            let Spread { min, p25, median, p75 } = figures.spread;
            let besides: Vec<String> = figures
                .besides
                .iter()
                .map(|(name, value)| format!("{name} {}", number(*value)))
                .collect();
            cells.extend([
                number(min),
                number(median),
                if figures.rounds > 1 {
                    format!("{}–{}", number(p25), number(p75))
                } else {
                    String::new()
                },
                figures.added.map(signed).unwrap_or_default(),
                figures.added_at_minimum.map(signed).unwrap_or_default(),
                figures.ratio.map(|ratio| format!("{}×", ratio_text(ratio))).unwrap_or_default(),
                must,
                met.into(),
                besides.join(", "),
            ]);
        }
        Err(reason) => {
            cells.extend(vec![String::new(); 6]);
            cells.extend([must, met.into()]);
            // A bar would begin another cell in Markdown.
            cells.push(reason.replace('|', "/"));
        }
    }
    cells
}

fn row(row: &Row) -> Value {
    let mut members = vec![("variant", Value::from(row.variant.as_str()))];
    match &row.figures {
        Ok(figures) => members.extend([
            ("min", figures.spread.min.into()),
            ("p25", figures.spread.p25.into()),
            ("median", figures.spread.median.into()),
            ("p75", figures.spread.p75.into()),
            ("rounds", (figures.rounds as f64).into()),
            ("added", figures.added.into()),
            ("added_at_minimum", figures.added_at_minimum.into()),
            ("ratio", figures.ratio.into()),
            (
                "besides",
                Value::object(figures.besides.iter().map(|(k, v)| (*k, Value::Number(*v)))),
            ),
        ]),
        Err(reason) => members.push(("none", reason.as_str().into())),
    }
    if let Some(goal) = row.goal {
        let (kind, most) = match goal {
            Goal::Added(most) => ("added", most),
            Goal::AddedAtMinima(most) => ("added_at_minima", most),
            Goal::Ratio(most) => ("ratio", most),
            Goal::Value(most) => ("median", most),
        };
        members.push(("goal", Value::object([(kind, Value::Number(most))])));
        members.push(("met", Value::Bool(row.met() == Some(true))));
    }
    Value::object(members)
}

fn goal_text(goal: Goal, unit: Unit) -> String {
    match goal {
        Goal::Added(most) => format!("added ≤ {most} {}", unit.symbol()),
        Goal::AddedAtMinima(most) => format!("at minima ≤ {most} {}", unit.symbol()),
        Goal::Ratio(most) => format!("ratio ≤ {most:.2}×"),
        Goal::Value(most) => format!("median ≤ {most} {}", unit.symbol()),
    }
}

/// A figure with about three digits, and thousands set apart.
fn number(value: f64) -> String {
    let size = value.abs();
    if size < 10.0 {
        return format!("{value:.2}");
    }
    if size < 1000.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{:.0}", size);
    let mut text = String::from(if value < 0.0 { "-" } else { "" });
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn signed(value: f64) -> String {
    let text = number(value);
    if text.starts_with('-') { text } else { format!("+{text}") }
}

fn ratio_text(value: f64) -> String {
    if value < 10.0 { format!("{value:.3}") } else { number(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(goals: &[(&str, Goal)]) -> Work {
        let samples = |values: &[f64]| {
            let each = |(round, value): (usize, &f64)| {
                (round, Sample { value: *value, besides: vec![("wall ms", 2.0)] })
            };
            Outcome::Measured(values.iter().enumerate().map(each).collect())
        };
        let variants = [Variant::native(), Variant::dispatch_allow(), Variant::dispatch_signal()];
        let outcomes = vec![
            samples(&[100.0, 200.0, 100.0]),
            samples(&[105.0, 206.0, 105.0]),
            Outcome::Failed("crashed".into()),
        ];
        Work::new("getppid", Unit::Nanoseconds, &variants, outcomes, goals)
    }

    #[test]
    fn compares_with_native_of_the_same_round() {
        let work =
            work(&[("SUD, selector ALLOW", Goal::Added(5.0)), ("SUD + SIGSYS", Goal::Ratio(9.0))]);
        let figures = work.rows[1].figures.as_ref().unwrap();
        assert_eq!((figures.added, figures.ratio), (Some(5.0), Some(1.05)));
        assert_eq!(work.rows[0].met(), None);
        assert_eq!(work.rows[1].met(), Some(true));
        assert_eq!(work.rows[2].met(), Some(false), "no figure does not reach a goal");
    }

    #[test]
    fn a_failure_is_shown_as_one() {
        let report = Report { circumstances: Vec::new(), works: vec![work(&[])] };
        assert!(report.table(false).contains("failed: crashed"));
        let markdown = report.table(true);
        assert!(markdown.lines().all(|line| line.starts_with('|')), "{markdown}");
        assert!(report.json().to_string().contains(r#""none":"failed: crashed""#));
    }

    #[test]
    fn numbers_keep_three_digits() {
        let texts = [1.234, 12.34, 1234567.8, -1234.0].map(number);
        assert_eq!(texts, ["1.23", "12.3", "1,234,568", "-1,234"]);
    }
}
