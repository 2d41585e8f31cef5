//! Balances as the module `bank` shows them. There is one token, and all of a balance can be spent. Lists
//! hold whole base units; the name of the wei, if it is another one, can be asked for by itself.

use super::{
    QueryError, Snapshot,
    page::cut,
    proto::cosmos::{
        bank::v1beta1::{
            QueryAllBalancesResponse, QueryBalanceResponse, QuerySpendableBalanceByDenomResponse,
            QuerySpendableBalancesResponse,
        },
        base::{
            query::v1beta1::{PageRequest, PageResponse},
            v1beta1::Coin,
        },
    },
    token::{coin, named},
};
use alloy_primitives::U256;
use storage::StateRead;

impl Snapshot {
    fn amount(&self, address: &str, denom: &str) -> Result<Coin, QueryError> {
        let (address, denom) = (self.address(address)?, named(denom)?);
        let Some(unit) = self.unit_named(denom) else { return Ok(coin(denom, U256::ZERO)) };
        let balance = self.state()?.account(address)?.unwrap_or_default().balance;
        Ok(coin(denom, unit.from_wei(balance)))
    }

    /// Balances that are not zero, on one page.
    fn coins(
        &self,
        address: &str,
        page: Option<PageRequest>,
    ) -> Result<(Vec<Coin>, PageResponse), QueryError> {
        let coin = self.amount(address, &self.denom())?;
        let held = (coin.amount != "0").then(|| (coin.denom.clone(), coin));
        cut(held.into_iter(), page)
    }

    /// An account's balance of one token.
    ///
    /// # Errors
    /// If the address or the token's name is none.
    pub fn bank_balance(
        &self,
        address: &str,
        denom: &str,
    ) -> Result<QueryBalanceResponse, QueryError> {
        Ok(QueryBalanceResponse { balance: Some(self.amount(address, denom)?) })
    }

    /// All balances of an account that are not zero. As in the SDK, `resolve_denom` names them after the display unit
    /// of the metadata and leaves the amounts in base units.
    ///
    /// # Errors
    /// If the address is none, or the page makes no sense.
    pub fn bank_balances(
        &self,
        address: &str,
        page: Option<PageRequest>,
        resolve_denom: bool,
    ) -> Result<QueryAllBalancesResponse, QueryError> {
        let (mut balances, page) = self.coins(address, page)?;
        if resolve_denom {
            for coin in &mut balances {
                coin.denom = self.bank_metadata(&coin.denom)?.display;
            }
        }
        Ok(QueryAllBalancesResponse { balances, pagination: Some(page) })
    }

    /// As [`Self::bank_balance`]: nothing is locked.
    ///
    /// # Errors
    /// As [`Self::bank_balance`].
    pub fn bank_spendable_balance(
        &self,
        address: &str,
        denom: &str,
    ) -> Result<QuerySpendableBalanceByDenomResponse, QueryError> {
        Ok(QuerySpendableBalanceByDenomResponse { balance: Some(self.amount(address, denom)?) })
    }

    /// As [`Self::bank_balances`]: nothing is locked.
    ///
    /// # Errors
    /// As [`Self::bank_balances`].
    pub fn bank_spendable_balances(
        &self,
        address: &str,
        page: Option<PageRequest>,
    ) -> Result<QuerySpendableBalancesResponse, QueryError> {
        let (balances, page) = self.coins(address, page)?;
        Ok(QuerySpendableBalancesResponse { balances, pagination: Some(page) })
    }
}
