//! How much of the token there is. A native chain mints nothing and burns no fees, so it is what genesis
//! gave out. Deposits that governance burned, and what contracts destroyed of their own, are in it still:
//! nothing keeps a count of them.

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

/// What genesis gave out, in wei, once it is known.
#[derive(Debug, Default)]
pub(super) struct Supply(Mutex<Option<U256>>);

impl Supply {
    /// Sums the accounts of genesis when it is first asked, which reads them all; others wait for that.
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
    /// What genesis gave out, in wei.
    fn supply(&self) -> Result<U256, QueryError> {
        if self.spec.native().is_none() {
            return Err(QueryError::precondition(
                "the supply of this chain is not known: it mints and burns by Ethereum's rules",
            ));
        }
        self.facts.supply.of(&self.view)
    }

    /// What genesis gave out, on one page.
    ///
    /// # Errors
    /// On a chain of Ethereum's rules, and on a page that makes no sense.
    pub fn bank_supply(
        &self,
        page: Option<PageRequest>,
    ) -> Result<QueryTotalSupplyResponse, QueryError> {
        let token = self.token();
        let supply = coin(token.denom, token.unit.from_wei(self.supply()?));
        let (supply, pagination) = cut([(supply.denom.clone(), supply)].into_iter(), page)?;
        Ok(QueryTotalSupplyResponse { supply, pagination: Some(pagination) })
    }

    /// What genesis gave out of one token.
    ///
    /// # Errors
    /// On a chain of Ethereum's rules, and if the token's name is none.
    pub fn bank_supply_of(&self, denom: &str) -> Result<QuerySupplyOfResponse, QueryError> {
        let (supply, denom) = (self.supply()?, named(denom)?);
        let amount = self.unit_named(denom).map_or(U256::ZERO, |unit| unit.from_wei(supply));
        Ok(QuerySupplyOfResponse { amount: Some(coin(denom, amount)) })
    }
}
