//! `evmd config` shows and changes the settings of a home folder.

use super::{HomeArg, Output, start::check_namespaces};
use anyhow::{Context, anyhow, ensure};
use config::{CONFIG_FILE, Config, NOT_TOML, with_setting, with_value};
use platform::whole_file;
use std::{io::Write, path::Path};
use storage::refuse_root;
use toml::{Table, Value};

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Show all settings, including defaults
    Show {
        #[command(flatten)]
        home: HomeArg,
        /// Output format: text is TOML
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Show the settings that differ from the defaults
    Diff {
        #[command(flatten)]
        home: HomeArg,
        /// Output format
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Show one setting
    Get {
        /// Section and name: json-rpc.address
        key: String,
        #[command(flatten)]
        home: HomeArg,
        /// Output format
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Change a setting in the file; a running node reads it at its next start
    Set {
        /// Section and name: json-rpc.address
        key: String,
        /// The new value
        value: String,
        #[command(flatten)]
        home: HomeArg,
    },
}

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    let mut out = crate::cli::stdout();
    match command {
        Command::Show { home, output } => {
            let config = Config::load(&home.path()?)?;
            match output {
                Output::Text => {
                    write!(out, "{}", toml::to_string_pretty(&config)?)?;
                    writeln!(
                        out,
                        "\n# Effective values of settings that are 0 and derived from the memory of the machine:"
                    )?;
                    for (name, value) in config.derived() {
                        writeln!(out, "# {name} = {value}")?;
                    }
                }
                Output::Json => writeln!(out, "{}", serde_json::to_string(&config)?)?,
            }
        }
        Command::Diff { home, output } => diff(&mut out, &Config::load(&home.path()?)?, *output)?,
        Command::Get { key, home, output } => {
            let settings = Table::try_from(Config::load(&home.path()?)?)?;
            match find(&settings, key)? {
                value if *output == Output::Json => {
                    writeln!(out, "{}", serde_json::to_string(value)?)?;
                }
                Value::String(text) => writeln!(out, "{text}")?,
                Value::Table(section) => write!(out, "{section}")?,
                other => writeln!(out, "{other}")?,
            }
        }
        Command::Set { key, value, home } => {
            let home = home.path()?;
            set(&home, key, value)?;
            let settings = Table::try_from(Config::load(&home)?)?;
            writeln!(out, "{key} = {}", find(&settings, key)?)?;
        }
    }
    out.flush()?;
    Ok(())
}

/// Prints the settings that differ from the defaults, with both values.
fn diff(out: &mut impl Write, config: &Config, output: Output) -> anyhow::Result<()> {
    let differences = config.differences();
    match output {
        Output::Text => {
            for (key, value, default) in differences {
                writeln!(out, "{key} = {value}  # default: {default}")?;
            }
        }
        Output::Json => {
            let of = |(key, value, default): &(String, Value, Value)| serde_json::json!({ "key": key, "value": value, "default": default });
            let list: Vec<_> = differences.iter().map(of).collect();
            writeln!(out, "{}", serde_json::Value::from(list))?;
        }
    }
    Ok(())
}

fn find<'a>(settings: &'a Table, key: &str) -> anyhow::Result<&'a Value> {
    let unknown =
        || anyhow!("unknown setting {key:?}{}: see `evmd config show`", similar(settings, key));
    let mut parts = key.split('.');
    let first = parts.next().and_then(|part| settings.get(part)).ok_or_else(unknown)?;
    parts.try_fold(first, |value, part| value.as_table()?.get(part)).ok_or_else(unknown)
}

/// Minimum Jaro-Winkler similarity of a setting that an error suggests.
const MIN_SIMILARITY: f64 = 0.8;
const MAX_SUGGESTIONS: usize = 3;

/// Returns " (did you mean NAME or NAME?)" with the most similar name first, or an empty string.
fn similar(settings: &Table, key: &str) -> String {
    let sections =
        settings.iter().filter_map(|(section, value)| Some((section, value.as_table()?)));
    let names = sections
        .flat_map(|(section, table)| table.keys().map(move |name| format!("{section}.{name}")));
    let similarity = |name: &String| {
        let part = name.split_once('.').map_or("", |(_, part)| part);
        strsim::jaro_winkler(name, key).max(strsim::jaro_winkler(part, key))
    };
    let mut names: Vec<_> = names.map(|name| (similarity(&name), name)).collect();
    names.retain(|(similarity, _)| *similarity >= MIN_SIMILARITY);
    names.sort_by(|a, b| b.0.total_cmp(&a.0));
    // A name that is much less similar than the best one would only distract.
    let best = names.first().map_or(0.0, |(similarity, _)| *similarity);
    let names = names.into_iter().filter(|(similarity, _)| best - similarity < 0.05);
    let names: Vec<_> = names.take(MAX_SUGGESTIONS).map(|(_, name)| name).collect();
    if names.is_empty() {
        String::new()
    } else {
        format!(" (did you mean {}?)", names.join(" or "))
    }
}

/// Changes one setting in the settings file, provided that the result is valid. Settings that are not in the file keep
/// their defaults.
pub(super) fn set(folder: &Path, key: &str, value: &str) -> anyhow::Result<()> {
    ensure!(
        folder.is_dir(),
        "the home folder {0} does not exist: create it with `evmd init --home {0}`, or name another one with --home",
        folder.display()
    );
    refuse_root(folder)?;
    let path = folder.join(CONFIG_FILE);
    let writing = || format!("cannot write {}", path.display());
    let lock = whole_file::lock_for_change(&path).with_context(writing)?;
    let text = changed(folder, key, value)?;
    whole_file::write(&path, text.as_bytes()).with_context(writing)?;
    drop(lock);
    Ok(())
}

/// Returns the text of the settings file after the change.
fn changed(folder: &Path, key: &str, value: &str) -> anyhow::Result<String> {
    let config = Config::load(folder)?;
    let old = find(&Table::try_from(&config)?, key)?.clone();
    ensure!(!old.is_table(), "{key} is a section, not a setting");
    let path = folder.join(CONFIG_FILE);
    let text = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        other => other.with_context(|| path.display().to_string())?,
    };
    let (section, name) = key.split_once('.').context("a setting is in a section")?;
    // A setting keeps its type.
    let new = match old {
        Value::String(_) => Value::String(value.to_owned()),
        Value::Array(_) if !value.starts_with('[') => {
            let items = value.split(',').map(str::trim).filter(|item| !item.is_empty());
            Value::Array(items.map(|item| Value::String(item.to_owned())).collect())
        }
        _ => value.parse().map_err(|_| anyhow!(with_setting(key, value, NOT_TOML)))?,
    };
    let text = with_value(&text, section, name, new)?;
    let config = toml::from_str::<Config>(&text)
        .map_err(|error| anyhow!(with_setting(key, value, error.message())))?;
    if ["json-rpc.api", "json-rpc.ws-api"].contains(&key) {
        check_namespaces(&config.json_rpc).context(key.to_owned())?;
    }
    Ok(text)
}
