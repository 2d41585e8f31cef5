//! Computes the base fee of Cosmos transactions: including fractions of a wei since rules version 1, and in whole wei
//! before it. Ethereum transactions always pay the base fee of the header, which is in whole wei.

use chain::{ChainSpec, RulesVersion};
use feemarket::{Event, LegacyDec, Market, store::StoredEvent};

/// Returns the base fee, in wei, in the block with this height. `whole` is the base fee in the header of the block,
/// and `market` is the fee market at the beginning of the block. Without a market, the result is `whole`.
pub fn base_fee(spec: &ChainSpec, height: u64, whole: u64, market: Option<&Market>) -> LegacyDec {
    let exact = market.filter(|_| spec.rules_version(height) >= RulesVersion::V1);
    exact.map_or_else(|| LegacyDec::from(whole), Market::base_fee_in_wei)
}

/// Does the same as [`base_fee`] for an older block, whose fee market is known only from its stored events.
pub fn stored_base_fee(
    spec: &ChainSpec,
    height: u64,
    whole: u64,
    events: &[StoredEvent],
) -> LegacyDec {
    let exact = || {
        let kind = Event::FeeMarket { base_fee: LegacyDec::ZERO }.kind();
        let event = events.iter().find(|event| event.kind == kind)?;
        let attribute = event.attributes.iter().find(|attribute| attribute.key == "base_fee")?;
        let units: LegacyDec = attribute.value.parse().ok()?;
        spec.token_unit(height).price_to_wei(units).ok()
    };
    let exact = (spec.rules_version(height) >= RulesVersion::V1).then(exact).flatten();
    exact.unwrap_or_else(|| LegacyDec::from(whole))
}
