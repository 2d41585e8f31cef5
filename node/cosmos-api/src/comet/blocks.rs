//! Implements the methods that return blocks, headers, commits, block results and validators.

use super::{Answer, Node, arguments::Arguments, error::Error, shape, txs};
use crate::query::{Snapshot, proto::tendermint::types::Header};
use alloy_primitives::B256;
use serde_json::json;

/// Maximum number of blocks in one list (as in CometBFT).
const MAX_LIST_BLOCKS: u64 = 20;

/// Returns the number in the parameter `height`, or the number of the newest block if the parameter is missing.
pub(super) fn height(at: &Snapshot, given: &Arguments) -> Result<u64, Error> {
    let newest = at.number();
    let Some(height) = given.number("height")? else { return Ok(newest) };
    let number = u64::try_from(height).ok().filter(|number| *number > 0);
    let number = number.ok_or(Error::HeightTooLow(height))?;
    if number > newest { Err(Error::HeightTooHigh { height, newest }) } else { Ok(number) }
}

/// Returns the number of the block with this hash.
fn by_hash(at: &Snapshot, hash: Option<Vec<u8>>) -> Result<u64, Error> {
    let hash = hash.ok_or(Error::Missing("hash"))?;
    let found = match B256::try_from(hash.as_slice()) {
        Ok(hash) => at.number_of(hash)?,
        Err(_) => None,
    };
    found.ok_or_else(|| Error::NoBlock(shape::hex(&hash)))
}

pub(super) fn block_json(at: &Snapshot, number: u64) -> Answer {
    let (id, block) = at.comet_block(number)?;
    Ok(shape::block(&id, &block))
}

fn header_json(at: &Snapshot, number: u64) -> Answer {
    Ok(json!({ "header": shape::header(&at.block_header(number)?.1) }))
}

pub(super) fn block(node: &Node, given: &Arguments) -> Answer {
    let at = node.newest()?;
    block_json(&at, height(&at, given)?)
}

pub(super) fn block_by_hash(node: &Node, given: &Arguments) -> Answer {
    let at = node.newest()?;
    block_json(&at, by_hash(&at, given.bytes("hash")?)?)
}

pub(super) fn header(node: &Node, given: &Arguments) -> Answer {
    let at = node.newest()?;
    header_json(&at, height(&at, given)?)
}

pub(super) fn header_by_hash(node: &Node, given: &Arguments) -> Answer {
    let at = node.newest()?;
    header_json(&at, by_hash(&at, given.hex("hash")?)?)
}

/// Returns the headers of a range of heights, newest first, or of the newest blocks if there is no range. At
/// most the last [`MAX_LIST_BLOCKS`] of the range are returned.
pub(super) fn blockchain(node: &Node, given: &Arguments) -> Answer {
    let at = node.newest()?;
    let bound = |name| match given.number(name)?.unwrap_or_default() {
        negative if negative < 0 => Err(Error::HeightTooLow(negative)),
        height => Ok(height.unsigned_abs()),
    };
    let (min, max) = (bound("minHeight")?.max(1), bound("maxHeight")?);
    let max = if max == 0 { at.number() } else { max.min(at.number()) };
    let min = min.max(max.saturating_sub(MAX_LIST_BLOCKS - 1));
    if min > max && at.number() > 0 {
        return Err(Error::HeightRange { min, max });
    }
    let metas = (min..=max).rev().map(|number| {
        let (id, block) = at.comet_block(number)?;
        Ok(shape::block_meta(&id, block))
    });
    let metas = metas.collect::<Result<Vec<_>, Error>>()?;
    Ok(json!({ "last_height": shape::long(at.number()), "block_metas": metas }))
}

/// Returns a header with its commit.
pub(super) fn commit(node: &Node, given: &Arguments) -> Answer {
    let at = node.newest()?;
    let number = height(&at, given)?;
    let (_, header) = at.block_header(number)?;
    let commit = shape::commit(&at.commit(number)?);
    let signed = json!({ "header": shape::header(&header), "commit": commit });
    Ok(json!({ "signed_header": signed, "canonical": true }))
}

/// Returns the results of the transactions of a block, and the events of the block itself.
pub(super) fn block_results(node: &Node, given: &Arguments) -> Answer {
    let at = node.newest()?;
    let number = height(&at, given)?;
    let results = at.block_results(number)?;
    let txs: Vec<_> = results.txs.iter().map(shape::tx_result).collect();
    let (_, Header { app_hash, .. }) = at.block_header(number)?;
    Ok(json!({
        "height": shape::long(number),
        "txs_results": txs,
        "finalize_block_events": shape::events(&results.events),
        "validator_updates": null,
        "consensus_param_updates": null,
        "app_hash": shape::base64(&app_hash),
    }))
}

pub(super) fn validators(node: &Node, given: &Arguments) -> Answer {
    let at = node.newest()?;
    let number = height(&at, given)?;
    let page = txs::page(given)?;
    let all = at.validator_set(number)?;
    let total = all.len();
    let size = usize::try_from(page.size).unwrap_or(total);
    let pages = total.div_ceil(size).max(1) as u64;
    if page.number > pages {
        return Err(Error::Page { pages: pages.cast_signed(), given: page.number.cast_signed() });
    }
    let before = (page.number - 1) as usize * size;
    let shown: Vec<_> = all.iter().skip(before).take(size).map(shape::validator).collect();
    Ok(json!({
        "block_height": shape::long(number),
        "count": shape::long(shown.len()),
        "validators": shown,
        "total": shape::long(total),
    }))
}
