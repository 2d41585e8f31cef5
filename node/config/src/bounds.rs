//! Values that make no sense are refused where they are read, with the line they are in.

use serde::{Deserialize, Deserializer, de::Error as _};
use storage::MAP_BYTES_MIN;

/// How the reasons of this module begin. They continue the name of the setting.
const MUST_BE: &str = "must be";

/// A reason with the name of the setting.
pub fn with_setting(setting: &str, value: &str, reason: &str) -> String {
    if reason.starts_with(MUST_BE) {
        format!("{setting} {reason}")
    } else {
        format!("{setting} cannot be {value:?}: {reason}")
    }
}

/// Longest time between blocks, in milliseconds: a day. The shortest is one.
const BLOCK_TIME_MS_MAX: u64 = 86_400_000;

/// Milliseconds between blocks.
pub(super) fn block_time_ms<'de, D: Deserializer<'de>>(source: D) -> Result<u64, D::Error> {
    let ms = u64::deserialize(source)?;
    if !(1..=BLOCK_TIME_MS_MAX).contains(&ms) {
        let reason = format!("{MUST_BE} between 1 and {BLOCK_TIME_MS_MAX}, got {ms}");
        return Err(D::Error::custom(reason));
    }
    Ok(ms)
}

/// Longest of the node's waits: a day, in seconds.
const WAIT_S_MAX: u64 = 86_400;

/// Seconds to wait for something.
pub(super) fn wait_s<'de, D: Deserializer<'de>>(source: D) -> Result<u64, D::Error> {
    wait(u64::deserialize(source)?, WAIT_S_MAX)
}

/// Milliseconds to wait for something.
pub(super) fn wait_ms<'de, D: Deserializer<'de>>(source: D) -> Result<u64, D::Error> {
    wait(u64::deserialize(source)?, WAIT_S_MAX * 1000)
}

fn wait<E: serde::de::Error>(time: u64, most: u64) -> Result<u64, E> {
    if (1..=most).contains(&time) {
        return Ok(time);
    }
    Err(E::custom(format!("{MUST_BE} between 1 and {most}, got {time}")))
}

/// Most of something that is served.
pub(super) fn not_zero<'de, D: Deserializer<'de>>(source: D) -> Result<u32, D::Error> {
    match u32::deserialize(source)? {
        0 => Err(D::Error::custom(format!("{MUST_BE} at least 1, got 0"))),
        most => Ok(most),
    }
}

/// Most bytes of an environment.
pub(super) fn map_bytes<'de, D: Deserializer<'de>>(source: D) -> Result<u64, D::Error> {
    let bytes = u64::deserialize(source)?;
    if bytes < MAP_BYTES_MIN {
        let reason = format!(
            "{MUST_BE} at least {MAP_BYTES_MIN}, the bytes of an empty environment, got {bytes}; a larger \
             value costs address space only"
        );
        return Err(D::Error::custom(reason));
    }
    Ok(bytes)
}

/// A reason why a file is refused at `offset`, with the name of the setting there.
pub(super) fn with_setting_at(text: &str, offset: usize, reason: String) -> String {
    let start = text.get(..offset).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
    let line = text.get(start..).unwrap_or_default();
    match line.split_once('=') {
        Some((setting, _)) if reason.starts_with(MUST_BE) => format!("{} {reason}", setting.trim()),
        _ => reason,
    }
}

/// The line, from 1 on, in which the byte at `offset` is.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    let before = text.bytes().take(offset);
    1 + before.filter(|byte| *byte == b'\n').count()
}
