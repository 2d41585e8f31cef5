//! Changes the token's base unit in deposits, at the height at which rules version 1 starts.

use super::Session;
use alloy_primitives::U256;
use chain::TokenUnit;
use proto::cosmos::base::v1beta1::Coin;
use std::sync::Arc;

impl Session<'_> {
    /// Converts the deposits of all proposals to another unit, rounded down. The remainder of a deposit stays in
    /// the account of governance, so its balance always covers all deposits.
    pub fn redenominate(&mut self, from: TokenUnit, to: TokenUnit) {
        if self.state().entries().next().is_none() {
            return;
        }
        for entry in self.state_mut().entries_mut() {
            convert(&mut entry.head.total_deposit, from, to);
            for placed in entry.deposits.values_mut() {
                convert(&mut Arc::make_mut(placed).item.amount, from, to);
            }
            entry.deposits.retain(|_, placed| !placed.item.amount.is_empty());
        }
    }
}

/// Converts a list of at most one coin. Zero amounts are not listed.
fn convert(coins: &mut Vec<Coin>, from: TokenUnit, to: TokenUnit) {
    for coin in coins.iter_mut() {
        let amount = coin.amount.parse::<U256>().unwrap_or_default();
        // The deposited amount was in an account, so in wei it has at most 256 bits.
        let wei = from.to_wei(amount).unwrap_or(U256::MAX);
        coin.amount = to.from_wei(wei).to_string();
    }
    coins.retain(|coin| coin.amount != "0");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Modules,
        gov::{GovState, Governance, Rules},
    };
    use chain::{DEV_ACCOUNTS, Genesis, RulesVersion};
    use feemarket::TokenDecimals;
    use keys::bech32;
    use proto::{
        cosmos::gov::v1::{Deposit, Proposal},
        evmd::gov::v1::State,
    };

    #[test]
    fn redenominated_deposits_are_rounded_down() {
        let coins =
            |amount: u64| vec![Coin { denom: "atest".to_owned(), amount: amount.to_string() }];
        let factor = 1_000_000_000_000;
        let amounts = [factor - 1, factor, factor + 1, 5 * factor];
        let total = amounts.iter().sum();
        let depositors = DEV_ACCOUNTS.iter().map(|account| bech32("cosmos", account.address));
        let state = State {
            proposals: vec![
                Proposal { id: 1, total_deposit: coins(total), ..Proposal::default() },
                Proposal { id: 2, ..Proposal::default() },
            ],
            deposits: std::iter::zip(amounts, depositors)
                .map(|(amount, depositor)| Deposit {
                    proposal_id: 1,
                    amount: coins(amount),
                    depositor,
                })
                .collect(),
            last_id: 2,
            ..State::default()
        };
        let genesis = Genesis::native_dev(0);
        let native = genesis.spec.native().unwrap();
        let state = GovState::from_message(state).unwrap();
        let (gov, _) = Governance::default().changed(state, 6, RulesVersion::V0);
        let modules = Modules { gov, ..Modules::genesis(native) };
        let version = RulesVersion::V1;
        let rules = Rules { params: &native.gov, prefix: "cosmos", modules: &modules, version };
        let mut session = Session::new(rules, 7, 0);
        let six = TokenUnit::of(TokenDecimals::new(6).unwrap());
        session.redenominate(TokenUnit::WEI, six);
        let state = session.state().to_message();
        let amount = |coins: &[Coin]| coins.first().map(|coin| coin.amount.clone());
        let deposits: Vec<_> = state.deposits.iter().map(|d| amount(&d.amount).unwrap()).collect();
        assert_eq!(deposits, ["1", "1", "5"], "a deposit below one unit is removed");
        assert_eq!(amount(&state.proposals[0].total_deposit).unwrap(), "8");
        assert_eq!(amount(&state.proposals[1].total_deposit), None);
    }
}
