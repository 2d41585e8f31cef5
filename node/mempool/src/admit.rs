//! The conditions for pooling a transaction, in addition to the rules of the chain.

use super::{
    Lane, Mempool, Pooled, Reject,
    evict::Inserted,
    limits::{BLOB_PRICE_BUMP, bumped},
};
use alloy_primitives::{Address, U256};
use modules::decorator::has_code;
use std::{sync::Arc, time::Instant};
use storage::Account;
use transactions::{RecoveredTx, cosmos};

/// Whether an accepted transaction is pending or queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its nonce follows the account's pending transactions, or the account's nonce, without a gap.
    Pending,
    /// It is queued behind a nonce gap.
    Queued,
}

impl Mempool {
    /// Accepts a transaction, or returns the reason for the rejection. `account` is the sender's account on
    /// chain. `authorities` returns the authorities of the transaction's valid authorizations. It is called
    /// after the cheaper checks, because it may have to recover each of them.
    ///
    /// # Errors
    /// See [`Reject`]. In that case the pool is unchanged.
    pub fn insert(
        &mut self,
        tx: Arc<RecoveredTx>,
        authorities: impl FnOnce(&RecoveredTx) -> Box<[Address]>,
        account: &Account,
        now: Instant,
    ) -> Result<Standing, Reject> {
        if self.by_hash.contains_key(&tx.hash) {
            return Err(Reject::AlreadyKnown);
        }
        let (hash, sender) = (tx.hash, tx.sender);
        let mut new = Pooled::new(tx, self.arrivals);
        self.check_price(&new)?;
        check_nonce(&new, account)?;
        let number = self.by_sender.get(&sender).copied();
        let lane = number.map(|number| self.at(number));
        let old = lane.and_then(|lane| lane.get(new.nonce()));
        if let (Some(lane), Some(old)) = (lane, old) {
            check_replaceable(&new, old, lane.next_nonce())?;
        }
        check_funds(&new, old, lane, account)?;
        self.check_delegation(&new, lane, account)?;
        match old {
            Some(old) => self.check_replacement(&new, old)?,
            None => self.check_queue_limit(&new, lane, account)?,
        }
        new.authorities = authorities(&new.tx);
        self.check_authorities(&new)?;
        let nonce = new.nonce();
        let number = number.unwrap_or_else(|| self.enter(sender, account, now));
        let (beat, replaced) = self.change(number, |lane| (lane.beat, lane.put(new, now)));
        if let Some(old) = &replaced {
            self.forget(old);
        }
        self.remember(hash, number, nonce);
        let replaces = replaced.is_some();
        self.evict_for(Inserted { lane: number, nonce, replaced, beat })?;
        self.arrivals += 1;
        self.dropped.replaced += u64::from(replaces);
        let pending = nonce < self.at(number).next_nonce();
        Ok(if pending { Standing::Pending } else { Standing::Queued })
    }

    fn check_price(&self, new: &Pooled) -> Result<(), Reject> {
        let (limits, offer) = (&self.limits, &new.offer);
        if offer.tip < limits.min_tip {
            return Err(Reject::BelowMinimum { tip: offer.tip, needed: limits.min_tip });
        }
        if offer.cap < limits.price_limit {
            return Err(Reject::BelowMinimum { tip: offer.cap, needed: limits.price_limit });
        }
        Ok(())
    }

    /// EIP-7702: any transaction can decrease the balance of a delegated account and increase its nonce, which
    /// invalidates the account's pooled transactions. Such an account can therefore have only one transaction in
    /// the pool. The same holds for an account whose delegation is pooled.
    fn check_delegation(
        &self,
        new: &Pooled,
        lane: Option<&Lane>,
        account: &Account,
    ) -> Result<(), Reject> {
        if has_code(account) || self.authorities.contains_key(&new.tx.sender) {
            match lane.filter(|lane| !lane.pending().is_empty()) {
                None if new.nonce() != account.nonce => return Err(Reject::DelegatedGap),
                Some(lane) if lane.get(new.nonce()).is_none() => {
                    return Err(Reject::DelegatedInFlight);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks the converse: an account with more than one pooled transaction cannot be delegated.
    fn check_authorities(&self, new: &Pooled) -> Result<(), Reject> {
        let reserved = |authority: &Address| {
            self.lane(*authority).is_some_and(|lane| lane.all().nth(1).is_some())
        };
        if new.authorities.iter().any(reserved) {
            return Err(Reject::AuthorityReserved);
        }
        Ok(())
    }

    fn check_replacement(&self, new: &Pooled, old: &Pooled) -> Result<(), Reject> {
        let percent = if old.blob_gas() > 0 { BLOB_PRICE_BUMP } else { self.limits.price_bump };
        let raised = |new: u128, old: u128| new > old && new >= bumped(old, percent);
        let all = raised(new.offer.cap, old.offer.cap)
            && raised(new.offer.tip, old.offer.tip)
            && (old.blob_gas() == 0 || raised(new.blob_cap(), old.blob_cap()));
        if all { Ok(()) } else { Err(Reject::ReplacementUnderpriced) }
    }

    /// Checks the maximum number of an account's queued transactions.
    fn check_queue_limit(
        &self,
        new: &Pooled,
        lane: Option<&Lane>,
        account: &Account,
    ) -> Result<(), Reject> {
        let next = lane.map_or(account.nonce, Lane::next_nonce);
        let queued = lane.map_or(0, |lane| lane.queued().len());
        if new.nonce() != next && queued >= self.limits.account_queue {
            let pooled = queued + lane.map_or(0, |lane| lane.pending().len());
            return Err(Reject::AccountLimit { pooled });
        }
        Ok(())
    }
}

/// Checks that the new transaction may replace the old one. Clients of the Cosmos interfaces treat a response with code
/// 0 as a promise, and read the sequence from the chain. A Cosmos transaction is therefore never replaced, and never
/// replaces another. `expected` is the sequence that the client has to use instead.
fn check_replaceable(new: &Pooled, old: &Pooled, expected: u64) -> Result<(), Reject> {
    let nonce = new.nonce();
    if new.tx.cosmos.is_some() {
        return Err(cosmos::sequence_mismatch(expected, nonce).into());
    }
    if old.tx.cosmos.is_some() {
        return Err(Reject::NonceOfCosmos { nonce });
    }
    Ok(())
}

fn check_nonce(new: &Pooled, account: &Account) -> Result<(), Reject> {
    let (next, nonce) = (account.nonce, new.nonce());
    if new.tx.cosmos.is_some() && (nonce < next || nonce == u64::MAX) {
        return Err(cosmos::sequence_mismatch(next, nonce).into());
    }
    if nonce < next {
        return Err(Reject::NonceTooLow { next, nonce });
    }
    if nonce == u64::MAX {
        return Err(Reject::NonceExhausted(new.tx.sender));
    }
    Ok(())
}

/// Checks that the balance covers the maximum cost of all pooled transactions of the account.
fn check_funds(
    new: &Pooled,
    old: Option<&Pooled>,
    lane: Option<&Lane>,
    account: &Account,
) -> Result<(), Reject> {
    let (balance, cost) = (account.balance, new.cost);
    if cost > balance {
        return Err(Reject::InsufficientFunds { balance, cost });
    }
    let others = lane.map_or(U256::ZERO, Lane::cost);
    let queued = others.saturating_sub(old.map_or(U256::ZERO, |old| old.cost));
    if queued.saturating_add(cost) > balance {
        return Err(Reject::InsufficientFundsQueued { balance, queued, cost });
    }
    Ok(())
}
