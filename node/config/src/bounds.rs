//! Limits of settings. Invalid values are refused when the file is parsed, so that the error names the line.

use serde::{Deserialize, Deserializer, de::Error as _};
use storage::MIN_MAP_BYTES;

/// The beginning of the error texts in this module. They follow the name of the setting.
const MUST_BE: &str = "must be";

/// An error text with the name of the setting.
pub fn with_setting(setting: &str, value: &str, reason: &str) -> String {
    if reason.starts_with(MUST_BE) {
        format!("{setting} {reason}")
    } else {
        format!("{setting} cannot be {value:?}: {reason}")
    }
}

/// Maximum time between blocks, in milliseconds: one day. The minimum is one millisecond.
const MAX_BLOCK_TIME_MS: u64 = 86_400_000;

/// Milliseconds between blocks.
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

/// A timeout in seconds.
pub(super) fn wait_s<'de, D: Deserializer<'de>>(source: D) -> Result<u64, D::Error> {
    wait(u64::deserialize(source)?, MAX_WAIT_S)
}

/// A timeout in milliseconds.
pub(super) fn wait_ms<'de, D: Deserializer<'de>>(source: D) -> Result<u64, D::Error> {
    wait(u64::deserialize(source)?, MAX_WAIT_S * 1000)
}

fn wait<E: serde::de::Error>(time: u64, most: u64) -> Result<u64, E> {
    if (1..=most).contains(&time) {
        return Ok(time);
    }
    Err(E::custom(format!("{MUST_BE} between 1 and {most}, got {time}")))
}

/// A limit that must not be zero.
pub(super) fn not_zero<'de, D: Deserializer<'de>>(source: D) -> Result<u32, D::Error> {
    match u32::deserialize(source)? {
        0 => Err(D::Error::custom(format!("{MUST_BE} at least 1, got 0"))),
        most => Ok(most),
    }
}

/// Maximum number of blocks that can be undone while the node runs. A read of the state searches the layers of
/// all of them.
const MAX_UNDO_BLOCKS: usize = 1024;

/// The number of blocks that can be undone.
pub(super) fn undo_blocks<'de, D: Deserializer<'de>>(source: D) -> Result<usize, D::Error> {
    let blocks = usize::deserialize(source)?;
    if blocks > MAX_UNDO_BLOCKS {
        let reason = format!("{MUST_BE} at most {MAX_UNDO_BLOCKS}, got {blocks}");
        return Err(D::Error::custom(reason));
    }
    Ok(blocks)
}

/// The maximum size of an LMDB environment in bytes.
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

/// An error text with the name of the setting at `offset`.
pub(super) fn with_setting_at(text: &str, offset: usize, reason: String) -> String {
    let start = text.get(..offset).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
    let line = text.get(start..).unwrap_or_default();
    match line.split_once('=') {
        Some((setting, _)) if reason.starts_with(MUST_BE) => format!("{} {reason}", setting.trim()),
        _ => reason,
    }
}

/// The line of the byte at `offset`, starting at 1.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    let before = text.bytes().take(offset);
    1 + before.filter(|byte| *byte == b'\n').count()
}
