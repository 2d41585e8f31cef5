//! Returns the supply of the token. A native chain does not mint and does not burn fees, so the supply is the sum of
//! the balances in genesis. This sum includes deposits that governance burned and balances that contracts destroyed,
//! because neither is recorded.

use super::{
    QueryError, Snapshot,
    page::cut,
    proto::cosmos::{
        bank::v1beta1::{QuerySupplyOfResponse, QueryTotalSupplyResponse},
        base::query::v1beta1::PageRequest,
    },
    token::{coin, named},
};
use alloy_primitives::U256;
use state::View;
use std::sync::{Mutex, PoisonError};

/// The supply in wei, once it has been computed.
#[derive(Debug, Default)]
pub(super) struct Supply(Mutex<Option<U256>>);

impl Supply {
    /// Returns the supply. The first call adds up the balances of all accounts in genesis; others wait for it.
    fn of(&self, view: &View) -> Result<U256, QueryError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sum) = *known {
            return Ok(sum);
        }
        let genesis = view.blocks()?.changes(0)?;
        let genesis = genesis.ok_or_else(|| QueryError::internal("block 0 has no changes"))?;
        let accounts = genesis.accounts.iter().filter_map(|change| change.account);
        let sum = accounts
            .map(|account| account.balance)
            .try_fold(U256::ZERO, U256::checked_add)
            .ok_or_else(|| {
            QueryError::precondition("the supply of this chain exceeds 256 bits")
        })?;
        Ok(*known.insert(sum))
    }
}

impl Snapshot {
    /// Returns the supply in wei.
    fn supply(&self) -> Result<U256, QueryError> {
        if self.spec.native().is_none() {
            return Err(QueryError::precondition(
                "the supply is unknown on a chain that follows Ethereum's rules",
            ));
        }
        self.facts.supply.of(&self.view)
    }

    /// Returns a page of the supply of all tokens.
    ///
    /// # Errors
    /// If the chain follows Ethereum's rules, or the page is invalid.
    pub fn bank_supply(
        &self,
        page: Option<PageRequest>,
    ) -> Result<QueryTotalSupplyResponse, QueryError> {
        let token = self.token();
        let supply = coin(token.denom, token.unit.from_wei(self.supply()?));
        let (supply, pagination) = cut([(supply.denom.clone(), supply)].into_iter(), page)?;
        Ok(QueryTotalSupplyResponse { supply, pagination: Some(pagination) })
    }

    /// Returns the supply of one token, which is zero for an unknown token.
    ///
    /// # Errors
    /// If the chain follows Ethereum's rules, or the name of the token is empty.
    pub fn bank_supply_of(&self, denom: &str) -> Result<QuerySupplyOfResponse, QueryError> {
        let (supply, denom) = (self.supply()?, named(denom)?);
        let amount = self.unit_named(denom).map_or(U256::ZERO, |unit| unit.from_wei(supply));
        Ok(QuerySupplyOfResponse { amount: Some(coin(denom, amount)) })
    }
}
