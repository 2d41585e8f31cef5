//! Writes the text of the settings file. In a new file, a setting that has its default is a comment, so that the
//! defaults of later versions apply. A change of one setting keeps the rest of the file if possible.

use crate::Config;
use std::fmt::Write;
use toml::{Table, Value};

/// The document that explains each setting in a row of a table. A test compares the rows with the settings.
const MEANINGS: &str = include_str!("../../../docs/settings.md");
/// Maximum length of a comment line.
const MAX_LINE_CHARS: usize = 100;

/// Returns the text of a new file. Settings that have their default are comments.
pub(crate) fn new_text(config: &Config) -> String {
    let (set, defaults) = (table(config), table(&Config::default()));
    let mut text = String::from(
        "# Settings of evmd. A setting in a comment has its default, which is the value shown. `evmd config set`\n\
         # changes a setting; `evmd config show` prints all, and `evmd config diff` those that are not the default.\n",
    );
    let mut current = "";
    for (section, name, meaning) in MEANINGS.lines().filter_map(row) {
        let values = [&set, &defaults].map(|table| &table[section][name]);
        if section != current {
            current = section;
            write!(text, "\n[{section}]\n").expect("a string accepts all text");
        }
        comment(&mut text, &meaning);
        let mark = if values[0] == values[1] { "# " } else { "" };
        writeln!(text, "{mark}{name} = {}", values[0]).expect("a string accepts all text");
    }
    text
}

/// Returns the settings that differ from the defaults: name, value and default.
pub(crate) fn differences(config: &Config) -> Vec<(String, Value, Value)> {
    let (set, defaults) = (table(config), table(&Config::default()));
    let mut found = Vec::new();
    for (section, values) in set {
        let Value::Table(values) = values else { continue };
        for (name, value) in values {
            let default = &defaults[&section][&name];
            if value != *default {
                found.push((format!("{section}.{name}"), value, default.clone()));
            }
        }
    }
    found
}

/// Sets `name` in a section of a file. Other settings keep their values. Comments stay, too, unless the file has a form
/// that is not recognized, such as a value of several lines.
///
/// # Errors
/// If the text is not TOML, or if the section is not a table.
pub fn with_value(
    text: &str,
    section: &str,
    name: &str,
    value: Value,
) -> Result<String, toml::de::Error> {
    let mut expected: Table = toml::from_str(text)?;
    let line = format!("{name} = {value}");
    let values = expected.entry(section).or_insert_with(|| Value::Table(Table::new()));
    if let Value::Table(values) = values {
        values.insert(name.to_owned(), value);
    }
    let edited = with_line(text, section, name, &line);
    if toml::from_str::<Table>(&edited).is_ok_and(|found| found == expected) {
        return Ok(edited);
    }
    Ok(toml::to_string_pretty(&expected).expect("settings are plain values"))
}

/// Replaces the line of a setting, or adds it after its default in a comment, or at the end of its section, which is
/// added if it is missing.
fn with_line(text: &str, section: &str, name: &str, line: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let header = format!("[{section}]");
    let Some(start) = lines.iter().position(|line| line.trim() == header) else {
        let gap = if text.is_empty() { "" } else { "\n" };
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        return format!("{text}{end}{gap}{header}\n{line}\n");
    };
    let body = lines[start + 1..].iter();
    let length = body.clone().position(|line| line.starts_with('[')).unwrap_or(body.len());
    let end = start + 1 + length;
    let find = |prefix: &str| {
        let sets_name = |line: &&str| {
            let rest =
                line.trim_start().strip_prefix(prefix).and_then(|rest| rest.strip_prefix(name));
            rest.is_some_and(|rest| rest.trim_start().starts_with('='))
        };
        (start + 1..end).find(|at| sets_name(&lines[*at]))
    };
    match (find(""), find("# ")) {
        (Some(at), _) => lines[at] = line,
        (None, Some(at)) => lines.insert(at + 1, line),
        (None, None) => {
            let filled = (start..end).rev().find(|at| !lines[*at].trim().is_empty());
            lines.insert(filled.unwrap_or(start) + 1, line);
        }
    }
    lines.join("\n") + "\n"
}

fn table(config: &Config) -> Table {
    Table::try_from(config).expect("settings are plain values")
}

/// Returns the section, the name and the meaning of the setting in a row of a table.
fn row(line: &str) -> Option<(&str, &str, String)> {
    let (setting, cells) = line.strip_prefix("| `")?.split_once("` | ")?;
    let (section, name) = setting.split_once('.')?;
    // Values and meanings may contain a bar, which is escaped.
    let cells = cells.replace("\\|", "\0");
    let meaning = cells.split(" | ").nth(2)?.trim_end_matches(" |").replace('\0', "|");
    Some((section, name, without_links(&meaning)))
}

/// Returns the text without the targets of its links.
fn without_links(text: &str) -> String {
    let mut parts = text.split("](");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (_, after) = part.split_once(')').unwrap_or(("", part));
        if let Some(open) = plain.rfind('[') {
            plain.remove(open);
        }
        plain.push_str(after);
    }
    plain
}

/// Writes a comment in lines of a limited length.
fn comment(text: &mut String, words: &str) {
    let mut length = 0;
    for word in words.split(' ') {
        if length == 0 || length + 1 + word.len() > MAX_LINE_CHARS {
            text.push_str(if length == 0 { "#" } else { "\n#" });
            length = 1;
        }
        text.push(' ');
        text.push_str(word);
        length += 1 + word.len();
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_file_has_every_setting_as_a_comment() {
        let text = new_text(&Config::default());
        assert_eq!(toml::from_str::<Config>(&text).expect("valid"), Config::default());
        let active = |line: &&str| !line.starts_with(['#', '[']) && !line.is_empty();
        assert_eq!(text.lines().find(active), None);
        let without_comments: String = text
            .lines()
            .map(|line| line.strip_prefix("# ").unwrap_or(line))
            .fold(String::new(), |text, line| {
                if line.contains(" = ") || line.starts_with('[') {
                    text + line + "\n"
                } else {
                    text
                }
            });
        let all: Table = toml::from_str(&without_comments).expect("valid");
        assert_eq!(all, table(&Config::default()));
        assert!(text.lines().all(|line| line.len() <= 2 * MAX_LINE_CHARS), "{text}");
    }

    #[test]
    fn settings_that_are_not_defaults_are_written_and_listed() {
        let mut config = Config::default();
        config.engine.block_time_ms = 250;
        let text = new_text(&config);
        assert!(text.contains("\nblock-time-ms = 250\n"), "{text}");
        assert_eq!(toml::from_str::<Config>(&text).expect("valid"), config);
        let name = "engine.block-time-ms".to_owned();
        let difference = (name, Value::Integer(250), Value::Integer(1000));
        assert_eq!(differences(&config), [difference]);
    }

    #[test]
    fn change_of_a_setting_keeps_the_comments() {
        let set = |text: &str, section, name, value: i64| {
            with_value(text, section, name, value.into()).expect("valid")
        };
        let file = "# mine\n[a]\n# about x\n# x = 1\n\n[b]\ny = 2 # two\n";
        let with_x = set(file, "a", "x", 5);
        assert_eq!(with_x, "# mine\n[a]\n# about x\n# x = 1\nx = 5\n\n[b]\ny = 2 # two\n");
        assert_eq!(set(&with_x, "a", "x", 6), with_x.replace("x = 5", "x = 6"));
        assert_eq!(set(file, "a", "z", 5), file.replace("# x = 1\n", "# x = 1\nz = 5\n"));
        assert_eq!(set(file, "c", "z", 5), format!("{file}\n[c]\nz = 5\n"));
        assert_eq!(set("", "c", "z", 5), "[c]\nz = 5\n");
        // A value of several lines: the comments are lost, but not the settings.
        let long = "[a]\nx = [\n  1,\n]\n";
        assert_eq!(set(long, "a", "x", 5), "[a]\nx = 5\n");
    }

    #[test]
    fn links_are_written_without_their_targets() {
        assert_eq!(without_links("see [a](b) and [c](d), [e]"), "see a and c, [e]");
    }
}
