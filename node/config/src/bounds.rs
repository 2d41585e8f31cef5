//! Limits of settings. Invalid values are refused when the file is parsed, so that the error names the line.

use crate::Config;
use serde::{Deserialize, Deserializer, de::Error as _};
use storage::MIN_MAP_BYTES;
use toml::{Table, Value};

/// The beginning of the error texts in this module. The name of the setting precedes them.
const MUST_BE: &str = "must be";

/// The reason to pass to [`with_setting`] for a value that is not TOML.
pub const NOT_TOML: &str = "invalid value";
/// The beginnings of error texts for values of another type, which do not say what is expected.
const WRONG_TYPE: [&str; 2] = ["invalid type", NOT_TOML];

/// Returns an error text with the name of the setting.
pub fn with_setting(setting: &str, value: &str, reason: &str) -> String {
    if reason.starts_with(MUST_BE) {
        return format!("{setting} {reason}");
    }
    let is_wrong_type = WRONG_TYPE.iter().any(|start| reason.starts_with(start));
    match expected(setting).filter(|_| is_wrong_type) {
        Some(expected) => format!("{setting} {MUST_BE} {expected}, got {value:?}"),
        None => format!("{setting} cannot be {value:?}: {reason}"),
    }
}

/// Returns what the value of a setting must be, with its default as an example; `None` for a text with its own syntax.
fn expected(setting: &str) -> Option<String> {
    let (section, name) = setting.split_once('.')?;
    let defaults = Table::try_from(Config::default()).ok()?;
    match defaults.get(section)?.get(name)? {
        Value::Integer(example) => Some(format!("a whole number, such as {example}")),
        Value::Boolean(_) => Some("true or false".to_owned()),
        Value::Array(_) => Some("a list, such as [\"a\", \"b\"]".to_owned()),
        _ => None,
    }
}

/// Maximum time between blocks, in milliseconds: one day. The minimum is one millisecond.
const MAX_BLOCK_TIME_MS: u64 = 86_400_000;

/// Reads the milliseconds between blocks.
pub(super) fn block_time_ms<'de, D: Deserializer<'de>>(source: D) -> Result<u64, D::Error> {
    let ms = u64::deserialize(source)?;
    if !(1..=MAX_BLOCK_TIME_MS).contains(&ms) {
        let reason = format!("{MUST_BE} between 1 and {MAX_BLOCK_TIME_MS}, got {ms}");
        return Err(D::Error::custom(reason));
    }
    Ok(ms)
}

/// Maximum of timeouts, in seconds: one day.
const MAX_WAIT_S: u64 = 86_400;

/// Reads a timeout in seconds.
pub(super) fn wait_s<'de, D: Deserializer<'de>>(source: D) -> Result<u64, D::Error> {
    wait(u64::deserialize(source)?, MAX_WAIT_S)
}

/// Reads a timeout in milliseconds.
pub(super) fn wait_ms<'de, D: Deserializer<'de>>(source: D) -> Result<u64, D::Error> {
    wait(u64::deserialize(source)?, MAX_WAIT_S * 1000)
}

fn wait<E: serde::de::Error>(time: u64, max: u64) -> Result<u64, E> {
    if (1..=max).contains(&time) {
        return Ok(time);
    }
    Err(E::custom(format!("{MUST_BE} between 1 and {max}, got {time}")))
}

/// Reads a limit that must not be zero.
pub(super) fn not_zero<'de, D: Deserializer<'de>>(source: D) -> Result<u32, D::Error> {
    match u32::deserialize(source)? {
        0 => Err(D::Error::custom(format!("{MUST_BE} at least 1, got 0"))),
        limit => Ok(limit),
    }
}

/// Maximum number of blocks that can be undone while the node runs. Each read of the state searches their layers.
const MAX_UNDO_BLOCKS: usize = 1024;

/// Reads the number of blocks that can be undone.
pub(super) fn undo_blocks<'de, D: Deserializer<'de>>(source: D) -> Result<usize, D::Error> {
    let blocks = usize::deserialize(source)?;
    if blocks > MAX_UNDO_BLOCKS {
        let reason = format!("{MUST_BE} at most {MAX_UNDO_BLOCKS}, got {blocks}");
        return Err(D::Error::custom(reason));
    }
    Ok(blocks)
}

/// Reads the maximum size of an LMDB environment in bytes.
pub(super) fn map_bytes<'de, D: Deserializer<'de>>(source: D) -> Result<u64, D::Error> {
    let bytes = u64::deserialize(source)?;
    if bytes < MIN_MAP_BYTES {
        let reason = format!(
            "{MUST_BE} at least {MIN_MAP_BYTES}, the bytes of an empty environment, got {bytes}; a larger \
             value costs address space only"
        );
        return Err(D::Error::custom(reason));
    }
    Ok(bytes)
}

/// Returns an error text with the name of the setting at the byte `offset`.
pub(super) fn with_setting_at(text: &str, offset: usize, reason: String) -> String {
    let start = text.get(..offset).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
    let line = text.get(start..).and_then(|rest| rest.lines().next()).unwrap_or_default();
    let Some((name, value)) = line.split_once('=') else { return reason };
    let (name, value) = (name.trim(), value.trim().trim_matches('"'));
    let headings = text[..start].lines().rev().map(str::trim);
    let section = headings.filter_map(|line| line.strip_prefix('[')?.strip_suffix(']')).next();
    let is_of_value =
        reason.starts_with(MUST_BE) || WRONG_TYPE.iter().any(|start| reason.starts_with(start));
    match section {
        Some(section) if is_of_value => with_setting(&format!("{section}.{name}"), value, &reason),
        _ => reason,
    }
}

/// Returns the line of the byte at `offset`, starting at 1.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    let before = text.bytes().take(offset);
    1 + before.filter(|byte| *byte == b'\n').count()
}
