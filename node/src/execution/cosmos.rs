//! Cosmos transactions in a block: the fee and the sequence, then the messages, all or none of them.
//!
//! Their gas is a function of what they say (see [`CosmosTx::gas_used`]); the fee is for the whole
//! gas limit and nothing of it comes back, as in the SDK.

use super::{BlockBuilder, StateError, TxError, overlay::Overlay};
use crate::{
    chain::{ChainSpec, FEE_COLLECTOR},
    cosmos::{CosmosTx, Message, Refusal, insufficient_funds, unsupported},
    decorator::Reject,
    feemarket::store::{Attribute, StoredEvent},
    gov::{Bank, Rules, Session},
    modules::Modules,
};
use alloy_consensus::Header;
use alloy_primitives::{Address, U256};
use std::{collections::BTreeMap, error::Error};
use storage::{Account, StateRead};

/// Accounts being changed, over those of the block; nothing is changed before [`Self::write`].
struct Ledger<'o, 'a, S> {
    overlay: &'o mut Overlay<'a, S>,
    /// The token.
    denom: &'a str,
    accounts: BTreeMap<Address, Account>,
}

impl<'o, 'a, S> Ledger<'o, 'a, S>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    const fn new(overlay: &'o mut Overlay<'a, S>, denom: &'a str) -> Self {
        Self { overlay, denom, accounts: BTreeMap::new() }
    }

    fn account(&mut self, address: Address) -> Result<&mut Account, StateError> {
        use std::collections::btree_map::Entry;
        match self.accounts.entry(address) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => {
                Ok(place.insert(self.overlay.account(address)?.unwrap_or_default()))
            }
        }
    }

    fn write(self) -> Result<(), StateError> {
        for (address, account) in self.accounts {
            self.overlay.put(address, account)?;
        }
        Ok(())
    }
}

impl<S> Bank for Ledger<'_, '_, S>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    type Error = StateError;

    fn transfer(
        &mut self,
        from: Address,
        to: Option<Address>,
        amount: U256,
    ) -> Result<Result<(), Refusal>, StateError> {
        let giver = self.account(from)?;
        let Some(rest) = giver.balance.checked_sub(amount) else {
            let (held, denom) = (giver.balance, self.denom);
            let text = format!("spendable balance {held}{denom} is smaller than {amount}{denom}");
            return Ok(Err(insufficient_funds(text)));
        };
        giver.balance = rest;
        if let Some(to) = to {
            let taker = self.account(to)?;
            taker.balance = taker.balance.saturating_add(amount);
        }
        Ok(Ok(()))
    }
}

/// Governance at the beginning of a block; `None` on an Ethereum chain.
pub(super) fn session<'a>(
    spec: &'a ChainSpec,
    modules: Option<&'a Modules>,
    header: &Header,
) -> Option<Session<'a>> {
    let (native, modules) = spec.native().zip(modules)?;
    let rules = Rules { params: &native.gov, prefix: &spec.bech32_prefix, modules };
    Some(Session::new(rules, header.number, header.timestamp))
}

impl<'a, S, I> BlockBuilder<'a, S, I>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    /// Runs a Cosmos transaction that passed its checks; says whether its messages took effect.
    pub(super) fn run_cosmos(
        &mut self,
        tx: &CosmosTx,
    ) -> Result<Result<bool, TxError>, StateError> {
        let Some(session) = &self.gov else { return Ok(Err(Reject::TypeNotSupported.into())) };
        let denom = session.denom();
        let charge = match tx.price.charge(self.environment.block.basefee, denom) {
            Ok(charge) => charge,
            Err(refusal) => return Ok(Err(Reject::Cosmos(refusal).into())),
        };
        let signer = tx.signer.address;
        let mut ledger = Ledger::new(self.machine.overlay_mut(), denom);
        if let Err(refusal) = ledger.transfer(signer, Some(FEE_COLLECTOR), charge.fee)? {
            return Ok(Err(Reject::Cosmos(refusal).into()));
        }
        let account = ledger.account(signer)?;
        account.nonce = account.nonce.saturating_add(1);
        ledger.write()?;
        let index = self.executed.receipts.len();
        let done = self.run_messages(&tx.messages)?;
        let succeeded = done.is_ok();
        let events = done.unwrap_or_else(|refusal| vec![failure(&refusal)]);
        for mut event in events {
            let attribute = Attribute { key: "txIndex".to_owned(), value: index.to_string() };
            event.attributes.insert(0, attribute);
            self.executed.events.push(event);
        }
        Ok(Ok(succeeded))
    }

    /// Runs messages, all or none; gives their events.
    pub(super) fn run_messages(
        &mut self,
        messages: &[Message],
    ) -> Result<Result<Vec<StoredEvent>, Refusal>, StateError> {
        let Some(mut session) = self.gov.clone() else {
            return Ok(Err(unsupported("this chain has no governance")));
        };
        let mut ledger = Ledger::new(self.machine.overlay_mut(), session.denom());
        let mut events = Vec::new();
        for (index, message) in messages.iter().enumerate() {
            match run(message, &mut session, &mut ledger)? {
                Ok(event) => events.extend(event),
                Err(refusal) => return Ok(Err(of_message(index, refusal))),
            }
        }
        ledger.write()?;
        self.gov = Some(session);
        Ok(Ok(events))
    }

    /// What governance does at the end of the block.
    pub(super) fn end_governance(&mut self) -> Result<(), StateError> {
        let Some(session) = self.gov.take() else { return Ok(()) };
        let mut ledger = Ledger::new(self.machine.overlay_mut(), session.denom());
        let ended = session.end(&mut ledger)?;
        ledger.write()?;
        self.executed.events.extend(ended.events);
        self.executed.updates.extend(ended.updates);
        self.executed.gov = ended.changed;
        Ok(())
    }
}

fn run<B: Bank>(
    message: &Message,
    session: &mut Session<'_>,
    bank: &mut B,
) -> Result<Result<Vec<StoredEvent>, Refusal>, B::Error> {
    let done = match message {
        Message::Send(send) => {
            let sent = bank.transfer(send.from.address, Some(send.to.address), send.amount)?;
            sent.map(|()| {
                vec![event(
                    "transfer",
                    &[
                        ("recipient", send.to.to_string()),
                        ("sender", send.from.to_string()),
                        ("amount", send.amount.to_string()),
                    ],
                )]
            })
        }
        Message::Submit(submission) => session.submit(bank, submission)?.map(|id| {
            vec![event(
                SUBMIT_EVENT,
                &[
                    ("proposal_id", id.to_string()),
                    ("proposal_proposer", submission.proposer.to_string()),
                ],
            )]
        }),
        Message::Deposit(deposit) => session.deposit(bank, deposit)?.map(|opens| {
            let mut events = vec![event(
                "proposal_deposit",
                &[
                    ("proposal_id", deposit.proposal.to_string()),
                    ("depositor", deposit.depositor.to_string()),
                    ("amount", deposit.amount.to_string()),
                ],
            )];
            if opens {
                let started = [("voting_period_start", deposit.proposal.to_string())];
                events.push(event("proposal_deposit", &started));
            }
            events
        }),
        Message::Vote(vote) => session.vote(vote).map(|()| {
            vec![event(
                "proposal_vote",
                &[
                    ("proposal_id", vote.proposal.to_string()),
                    ("voter", vote.voter.to_string()),
                    ("option", vote.option.as_str_name().to_owned()),
                ],
            )]
        }),
    };
    Ok(done)
}

fn event(kind: &str, attributes: &[(&str, String)]) -> StoredEvent {
    let attribute =
        |(key, value): &(&str, String)| Attribute { key: (*key).to_owned(), value: value.clone() };
    StoredEvent { kind: kind.to_owned(), attributes: attributes.iter().map(attribute).collect() }
}

/// The refusal of the message at `index`, as the SDK wraps it.
fn of_message(index: usize, refusal: Refusal) -> Refusal {
    let place = format!("failed to execute message; message index: {index}");
    let detail = match refusal.detail.as_str() {
        "" => place,
        detail => format!("{place}: {detail}"),
    };
    Refusal { detail, ..refusal }
}

/// Kind of the event that a new proposal leaves.
pub const SUBMIT_EVENT: &str = "submit_proposal";
/// Kind of the event that says why a transaction had no effect.
pub const FAILED_EVENT: &str = "tx_failed";

fn failure(refusal: &Refusal) -> StoredEvent {
    event(
        FAILED_EVENT,
        &[
            ("codespace", refusal.code.space.to_owned()),
            ("code", refusal.code.number.to_string()),
            ("log", refusal.to_string()),
        ],
    )
}
