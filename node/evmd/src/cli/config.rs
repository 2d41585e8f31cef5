//! `evmd config`: the settings of a home folder.

use super::{HomeArg, Output};
use anyhow::{Context, anyhow, ensure};
use config::{CONFIG_FILE, Config, with_setting};
use platform::whole_file;
use std::{io::Write, path::Path};
use storage::{OPEN_FOLDER_MODE, make_folder};
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
        Command::Set { key, value, home } => set(home, key, value)?,
    }
    out.flush()?;
    Ok(())
}

fn find<'a>(settings: &'a Table, key: &str) -> anyhow::Result<&'a Value> {
    let unknown = || anyhow!("unknown setting {key:?}: see `evmd config show`");
    let mut parts = key.split('.');
    let first = parts.next().and_then(|part| settings.get(part)).ok_or_else(unknown)?;
    parts.try_fold(first, |value, part| value.as_table()?.get(part)).ok_or_else(unknown)
}

/// Writes the file with one setting changed, if the file is still valid. Settings that are not in the file keep
/// their defaults.
fn set(home: &HomeArg, key: &str, value: &str) -> anyhow::Result<()> {
    let folder = home.path()?;
    // An invalid setting must not create a folder.
    changed(&folder, key, value)?;
    let path = folder.join(CONFIG_FILE);
    let writing = || format!("cannot write {}", path.display());
    make_folder(&folder, OPEN_FOLDER_MODE).with_context(writing)?;
    let lock = whole_file::lock_for_change(&path).with_context(writing)?;
    let text = changed(&folder, key, value)?;
    whole_file::write(&path, text.as_bytes()).with_context(writing)?;
    drop(lock);
    Ok(())
}

/// The text of the file after the change.
fn changed(folder: &Path, key: &str, value: &str) -> anyhow::Result<String> {
    let config = Config::load(folder)?;
    let old = find(&Table::try_from(&config)?, key)?.clone();
    ensure!(!old.is_table(), "{key} is a section, not a setting");
    let path = folder.join(CONFIG_FILE);
    let text = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        other => other.with_context(|| path.display().to_string())?,
    };
    let mut table: Table = toml::from_str(&text)?;
    let (section, name) = key.split_once('.').context("a setting is in a section")?;
    let section = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
    let section = section.as_table_mut().context("a section holds settings")?;
    // A setting keeps its type.
    let new = match old {
        Value::String(_) => Value::String(value.to_owned()),
        Value::Array(_) if !value.starts_with('[') => {
            let items = value.split(',').map(str::trim).filter(|item| !item.is_empty());
            Value::Array(items.map(|item| Value::String(item.to_owned())).collect())
        }
        _ => value.parse().map_err(|_| anyhow!("{key} cannot be {value:?}"))?,
    };
    section.insert(name.to_owned(), new);
    let text = toml::to_string_pretty(&table)?;
    toml::from_str::<Config>(&text)
        .map_err(|error| anyhow!(with_setting(key, value, error.message())))?;
    Ok(text)
}
