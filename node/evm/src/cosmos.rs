//! Executes Cosmos transactions: pays the fee and increments the sequence, then executes all messages or none.
//!
//! The gas used is a function of the messages (see [`CosmosTx::gas_used`]). The fee covers the whole gas
//! limit and is not refunded, as in the SDK.

use super::{BlockBuilder, StateError, TxError, overlay::Overlay, precompiles::is_any_precompile};
use alloy_consensus::Header;
use alloy_primitives::{Address, U256};
use chain::{ChainSpec, FEE_COLLECTOR, Token};
use feemarket::store::{Attribute, StoredEvent};
use keys::is_module_account;
use modules::{
    Modules,
    decorator::Reject,
    gov::{Bank, Rules, Session},
};
use std::{collections::BTreeMap, error::Error};
use storage::{Account, StateRead};
use transactions::cosmos::{
    CosmosTx, Message, Refusal, SUBMIT_EVENT, base_fee, check_unit, insufficient_funds,
    unauthorized, unsupported,
};

/// Changed accounts on top of the block's state. The block is unchanged until [`Self::write`].
struct Ledger<'o, 'a, S> {
    overlay: &'o mut Overlay<'a, S>,
    /// The token in this block.
    token: Token<'a>,
    accounts: BTreeMap<Address, Account>,
}

impl<'o, 'a, S> Ledger<'o, 'a, S>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    const fn new(overlay: &'o mut Overlay<'a, S>, token: Token<'a>) -> Self {
        Self { overlay, token, accounts: BTreeMap::new() }
    }

    fn account(&mut self, address: Address) -> Result<&mut Account, StateError> {
        use std::collections::btree_map::Entry;
        match self.accounts.entry(address) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(entry) => {
                Ok(entry.insert(self.overlay.account(address)?.unwrap_or_default()))
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
        let token = self.token;
        let payer = self.account(from)?;
        // An amount that exceeds 256 bits of wei exceeds every balance.
        let wei = token.unit.to_wei(amount);
        let Some((wei, rest)) = wei.and_then(|wei| Some((wei, payer.balance.checked_sub(wei)?)))
        else {
            let held = token.show_wei(payer.balance);
            let text = format!("spendable balance {held} is smaller than {amount}{}", token.denom);
            return Ok(Err(insufficient_funds(text)));
        };
        payer.balance = rest;
        if let Some(to) = to {
            let recipient = self.account(to)?;
            recipient.balance = recipient.balance.saturating_add(wei);
        }
        Ok(Ok(()))
    }
}

/// Starts governance at the beginning of a block; returns `None` on an Ethereum chain and without modules.
pub(super) fn session<'a>(
    spec: &'a ChainSpec,
    modules: Option<&'a Modules>,
    header: &Header,
) -> Option<Session<'a>> {
    let (native, modules) = spec.native().zip(modules)?;
    let version = spec.rules_version(header.number);
    let rules = Rules { params: &native.gov, prefix: &spec.bech32_prefix, modules, version };
    let mut session = Session::new(rules, header.number, header.timestamp);
    let unit = |height| spec.token_unit(height);
    if let Some(parent) = header.number.checked_sub(1)
        && unit(parent) != unit(header.number)
    {
        session.redenominate(unit(parent), unit(header.number));
    }
    Some(session)
}

impl<'a, S, I> BlockBuilder<'a, S, I>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    /// Returns the token with this name, in its unit at this block.
    fn token(&self, denom: &'a str) -> Token<'a> {
        Token { denom, unit: self.spec.token_unit(self.number) }
    }

    /// Executes a Cosmos transaction whose sender has been checked. Returns whether its messages took effect.
    pub(super) fn run_cosmos(
        &mut self,
        tx: &CosmosTx,
    ) -> Result<Result<bool, TxError>, StateError> {
        let Some(session) = &self.gov else { return Ok(Err(Reject::TypeNotSupported.into())) };
        let token = self.token(session.denom());
        let whole = self.environment.block.basefee;
        let base_fee = base_fee(self.spec, self.number, whole, Some(session.market()));
        let charge = tx
            .check_form(self.spec.rules_version(self.number))
            .and_then(|()| check_unit(tx, token))
            .and_then(|()| tx.price.charge(base_fee, token));
        let charge = match charge {
            Ok(charge) => charge,
            Err(refusal) => return Ok(Err(Reject::Cosmos(refusal).into())),
        };
        let signer = tx.signer.address;
        let mut ledger = Ledger::new(self.machine.overlay_mut(), token);
        if let Err(refusal) = ledger.transfer(signer, Some(FEE_COLLECTOR), charge.amount)? {
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

    /// Executes all messages or none; returns their events.
    pub(super) fn run_messages(
        &mut self,
        messages: &[Message],
    ) -> Result<Result<Vec<StoredEvent>, Refusal>, StateError> {
        let Some(mut session) = self.gov.clone() else {
            return Ok(Err(unsupported("this chain has no governance")));
        };
        let token = self.token(session.denom());
        let mut ledger = Ledger::new(self.machine.overlay_mut(), token);
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

    /// Executes what governance decides at the end of the block.
    pub(super) fn end_governance(&mut self) -> Result<(), StateError> {
        let Some(session) = self.gov.take() else { return Ok(()) };
        let token = self.token(session.denom());
        let mut ledger = Ledger::new(self.machine.overlay_mut(), token);
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
        Message::Send(send) if session.is_version_1() && !may_receive(send.to.address) => {
            Err(unauthorized(format!("{} is not allowed to receive funds", send.to)))
        }
        Message::Send(send) => {
            let sent = bank.transfer(send.from.address, Some(send.to.address), send.amount)?;
            sent.map(|()| {
                vec![StoredEvent::new(
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
            vec![StoredEvent::new(
                SUBMIT_EVENT,
                &[
                    ("proposal_id", id.to_string()),
                    ("proposal_proposer", submission.proposer.to_string()),
                ],
            )]
        }),
        Message::Deposit(deposit) => session.deposit(bank, deposit)?.map(|opens| {
            let mut events = vec![StoredEvent::new(
                "proposal_deposit",
                &[
                    ("proposal_id", deposit.proposal.to_string()),
                    ("depositor", deposit.depositor.to_string()),
                    ("amount", deposit.amount.to_string()),
                ],
            )];
            if opens {
                let started = [("voting_period_start", deposit.proposal.to_string())];
                events.push(StoredEvent::new("proposal_deposit", &started));
            }
            events
        }),
        Message::Vote(vote) => session.vote(vote).map(|()| {
            vec![StoredEvent::new(
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

/// Returns false for module accounts and precompiles, which have no keys to spend funds (SDK: blocked addresses).
fn may_receive(address: Address) -> bool {
    !is_module_account(address) && !is_any_precompile(address)
}

/// Returns the refusal of the message at `index`, with the text that the SDK adds.
fn of_message(index: usize, refusal: Refusal) -> Refusal {
    let prefix = format!("failed to execute message; message index: {index}");
    let detail = match refusal.detail.as_str() {
        "" => prefix,
        detail => format!("{prefix}: {detail}"),
    };
    Refusal { detail, ..refusal }
}

/// Type of the event that contains the reason why a transaction had no effect.
pub const FAILED_EVENT: &str = "tx_failed";

fn failure(refusal: &Refusal) -> StoredEvent {
    StoredEvent::new(
        FAILED_EVENT,
        &[
            ("codespace", refusal.code.space.to_owned()),
            ("code", refusal.code.number.to_string()),
            ("log", refusal.to_string()),
        ],
    )
}
