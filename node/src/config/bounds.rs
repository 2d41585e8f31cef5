//! Values that make no sense are refused where they are read, with the line they are in.

use serde::{Deserialize, Deserializer, de::Error as _};
use storage::MAP_BYTES_MIN;

/// Longest time between blocks, in milliseconds: a day. The shortest is one.
const BLOCK_TIME_MS_MAX: u64 = 86_400_000;

/// Milliseconds between blocks.
pub(super) fn block_time_ms<'de, D: Deserializer<'de>>(source: D) -> Result<u64, D::Error> {
    let ms = u64::deserialize(source)?;
    if !(1..=BLOCK_TIME_MS_MAX).contains(&ms) {
        let reason = format!("block-time-ms {ms}: allowed are 1 to {BLOCK_TIME_MS_MAX}");
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
    Err(E::custom(format!("{time}: allowed are 1 to {most}")))
}

/// Most of something that is served.
pub(super) fn not_zero<'de, D: Deserializer<'de>>(source: D) -> Result<u32, D::Error> {
    match u32::deserialize(source)? {
        0 => Err(D::Error::custom("0 would serve nobody: 1 is the least")),
        most => Ok(most),
    }
}

/// Most bytes of an environment.
pub(super) fn map_bytes<'de, D: Deserializer<'de>>(source: D) -> Result<u64, D::Error> {
    let bytes = u64::deserialize(source)?;
    if bytes < MAP_BYTES_MIN {
        let reason = format!(
            "{bytes} bytes would not hold an empty environment: {MAP_BYTES_MIN} are the least; the \
             default costs address space only"
        );
        return Err(D::Error::custom(reason));
    }
    Ok(bytes)
}

/// The line, from 1 on, in which the byte at `offset` is.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    let before = text.bytes().take(offset);
    1 + before.filter(|byte| *byte == b'\n').count()
}
