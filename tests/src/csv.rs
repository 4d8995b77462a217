//! The project's small tables: comma-separated text with a header line, quotes where needed.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// One line of a table, by column name.
pub type Row = HashMap<String, String>;

/// Reads a table.
///
/// # Panics
/// When the file cannot be read, or a line has not as many fields as the header.
#[must_use]
pub fn read(path: &Path) -> Vec<Row> {
    let text = fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
    let mut lines = text.lines().filter(|line| !line.is_empty()).map(fields);
    let header = lines.next().unwrap_or_default();
    lines
        .map(|line| {
            assert_eq!(line.len(), header.len(), "fields of {line:?} in {}", path.display());
            header.iter().cloned().zip(line).collect()
        })
        .collect()
}

fn fields(line: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut quoted = false;
    for character in line.chars() {
        match character {
            '"' => quoted = !quoted,
            ',' if !quoted => all.push(String::new()),
            other => all.last_mut().expect("at least one field").push(other),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::fields;

    #[test]
    fn quoted_fields_keep_their_commas() {
        assert_eq!(fields("a,\"b,c\",,d"), ["a", "b,c", "", "d"]);
    }
}
