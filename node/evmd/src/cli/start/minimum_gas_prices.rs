//! Warns if `mempool.minimum-gas-prices` does not apply to all transactions.

use alloy_consensus::Header;
use chain::{ChainSpec, Fork, Rules};
use config::{ForeignToken, MinimumGasPrices};
use feemarket::LegacyDec;
use home::Home;

const NATIVE: &str = "mempool.minimum-gas-prices has no effect on Ethereum transactions, only on Cosmos \
                      transactions: the fee market of a native chain follows London from block 0, and the \
                      chain's own min_gas_price is the minimum for both";
const ETHEREUM: &str = "mempool.minimum-gas-prices has no effect: this chain has no Cosmos transactions, and \
                        its next block follows London or a later fork";

/// Warns if the setting is not zero but does not apply to all transactions.
///
/// # Errors
/// If the head cannot be read, or the price is in a token that the chain does not have.
pub(super) fn warn(home: &Home) -> anyhow::Result<()> {
    let head = home.view()?.head.header;
    let setting = &home.config.mempool.minimum_gas_prices;
    if let Some(warning) = warning(&home.spec, &head, setting)? {
        tracing::warn!(price = %setting, "{warning}");
    }
    Ok(())
}

fn warning(
    spec: &ChainSpec,
    head: &Header,
    setting: &MinimumGasPrices,
) -> Result<Option<&'static str>, ForeignToken> {
    let token = spec.token(head.number.saturating_add(1));
    let price = setting.in_token(token.denom)?;
    if price.is_none_or(|price| price.amount == LegacyDec::ZERO) {
        return Ok(None);
    }
    Ok(match spec.rules {
        Rules::Native => Some(NATIVE),
        Rules::Ethereum if spec.fork_after(head, head.timestamp) >= Fork::London => Some(ETHEREUM),
        Rules::Ethereum => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::U256;
    use chain::Genesis;

    fn setting(text: &str) -> MinimumGasPrices {
        text.parse().unwrap()
    }

    #[test]
    fn nonzero_minimum_on_a_native_chain_causes_a_warning() {
        let spec = Genesis::native_dev(0).spec;
        let warning_for = |text| warning(&spec, &Header::default(), &setting(text));
        assert_eq!(warning_for("0.000000000000000001atest"), Ok(Some(NATIVE)));
        assert_eq!([warning_for("0atest"), warning_for("")], [Ok(None), Ok(None)]);
        assert!(warning_for("1stake").unwrap_err().to_string().contains("paid in atest"));
    }

    #[test]
    fn minimum_on_an_ethereum_chain_causes_a_warning_from_london_on() {
        let spec = testkit::london_at_block_7().spec;
        let warning_for = |number| {
            let head = Header { number, difficulty: U256::ONE, ..Header::default() };
            warning(&spec, &head, &setting("1atest"))
        };
        assert_eq!([5, 6].map(warning_for), [Ok(None), Ok(Some(ETHEREUM))]);
    }
}
