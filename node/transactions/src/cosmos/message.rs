//! Decodes the messages of Cosmos transactions from `Any`, and checks what can be checked without the state.

use super::{
    coin,
    error::{
        Refusal, gov_invalid_content, gov_invalid_message, gov_invalid_proposal,
        gov_invalid_signer, gov_invalid_vote, gov_metadata_too_long, gov_no_handler,
        gov_summary_too_long, gov_unroutable, invalid_address, invalid_coins, invalid_request,
        invalid_type, tx_decode,
    },
    gov_address,
    wire::{Reader, canonical},
};
use crate::Update;
use alloy_primitives::{Address, U256};
use chain::{DistributionParams, EvmParams};
use keys::decode_any;
use prost::{Message as _, Name};
use prost_types::Any;
use proto::{
    cosmos::{
        bank::v1beta1::MsgSend,
        base::v1beta1::Coin,
        evm::{feemarket::v1 as feemarket_proto, vm::v1 as vm_proto},
        gov::{
            v1::{MsgDeposit, MsgSubmitProposal, MsgVote, VoteOption},
            v1beta1,
        },
    },
    evmd::distribution::v1 as distribution_proto,
};
use std::fmt;

/// Maximum number of messages in a proposal.
const MAX_PROPOSED: usize = 8;
/// Maximum length of a proposal's title, and of the metadata of a proposal or a vote, in characters; the SDK's limit.
const MAX_METADATA_CHARS: usize = 255;
/// Maximum number of addresses in an access control list. Each contract creation and each call searches a list.
const MAX_LISTED: usize = 256;
/// Maximum length of a proposal's summary, in characters: 40 times that of metadata, as in the SDK.
const MAX_SUMMARY_CHARS: usize = 40 * MAX_METADATA_CHARS;

/// Maximum length of the title of a text proposal of `v1beta1`, in characters; the SDK's limit.
const MAX_FORMER_TITLE_CHARS: usize = 140;
/// Maximum length of the description of a text proposal of `v1beta1`, in characters; the SDK's limit.
const MAX_FORMER_DESCRIPTION_CHARS: usize = 10_000;

/// An account in a message.
#[derive(Clone, Debug)]
pub struct MessageAccount {
    /// The Bech32 prefix of the address, in lower case. It must be the prefix of the chain's addresses.
    pub(super) prefix: String,
    /// The account.
    pub address: Address,
    /// Whether the address was received in upper case, which Bech32 permits.
    is_upper_case: bool,
}

impl PartialEq for MessageAccount {
    /// Compares the accounts. The case of the received text makes no difference.
    fn eq(&self, other: &Self) -> bool {
        (&self.prefix, self.address) == (&other.prefix, other.address)
    }
}

impl Eq for MessageAccount {}

impl MessageAccount {
    /// Creates an account of a chain with this prefix.
    pub fn new(prefix: &str, address: Address) -> Self {
        Self { prefix: prefix.to_owned(), address, is_upper_case: false }
    }

    pub(super) fn read(text: &str) -> Result<Self, Refusal> {
        let invalid = |reason: String| invalid_address(format!("{text}: {reason}"));
        if text.is_empty() {
            return Err(invalid_address("empty address string is not allowed"));
        }
        let (prefix, bytes) = decode_any(text).map_err(|error| invalid(error.to_string()))?;
        let address = Address::try_from(bytes.as_slice());
        let address = address.map_err(|_| invalid(format!("{} bytes, want 20", bytes.len())))?;
        let is_upper_case = text.bytes().any(|byte| byte.is_ascii_uppercase());
        Ok(Self { prefix, address, is_upper_case })
    }

    pub(super) fn text(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for MessageAccount {
    /// Writes the address in lower case, even if it was received in upper case.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&keys::bech32(&self.prefix, self.address))
    }
}

/// A transfer of tokens, `cosmos.bank.v1beta1.MsgSend`.
#[derive(Clone, Debug, PartialEq)]
pub struct Send {
    /// The account that pays.
    pub from: MessageAccount,
    /// The account that is paid.
    pub to: MessageAccount,
    /// The amount as it was sent; exactly one coin.
    pub coins: Vec<Coin>,
    /// The amount in base units of the token.
    pub amount: U256,
}

/// `MsgSubmitProposal` of `cosmos.gov.v1` or `v1beta1`.
#[derive(Clone, Debug, PartialEq)]
pub struct Submission {
    /// The account that proposes.
    pub proposer: MessageAccount,
    /// The new parameters that the proposal sets.
    pub updates: Vec<Update>,
    /// The initial deposit, in base units of the token; it may be zero.
    pub deposit: U256,
    /// The message, which is converted to `v1` if it was sent as a message of `cosmos.gov.v1beta1`.
    pub message: MsgSubmitProposal,
    /// Whether the message was sent as a message of `cosmos.gov.v1beta1`.
    pub is_v1beta1: bool,
}

/// `MsgDeposit` of `cosmos.gov.v1` or `v1beta1`.
#[derive(Clone, Debug, PartialEq)]
pub struct Deposit {
    /// Number of the proposal.
    pub proposal: u64,
    /// The account that deposits.
    pub depositor: MessageAccount,
    /// The amount as it was sent; exactly one coin.
    pub coins: Vec<Coin>,
    /// The amount in base units of the token.
    pub amount: U256,
    /// Whether the message was sent as a message of `cosmos.gov.v1beta1`.
    pub is_v1beta1: bool,
}

/// `MsgVote` of `cosmos.gov.v1` or `v1beta1`.
#[derive(Clone, Debug, PartialEq)]
pub struct Vote {
    /// Number of the proposal.
    pub proposal: u64,
    /// The account that votes.
    pub voter: MessageAccount,
    /// The chosen option.
    pub option: VoteOption,
    /// A comment, which is stored with the vote.
    pub metadata: String,
    /// Whether the message was sent as a message of `cosmos.gov.v1beta1`.
    pub is_v1beta1: bool,
}

/// A message of a transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// A transfer of tokens.
    Send(Send),
    /// A new proposal.
    Submit(Box<Submission>),
    /// A deposit for a proposal.
    Deposit(Deposit),
    /// A vote.
    Vote(Vote),
}

impl Message {
    /// Decodes a message and checks what can be checked without the state.
    pub(super) fn read(any: &Any, reader: &mut Reader) -> Result<Self, Refusal> {
        let kind = any.type_url.as_str();
        if kind == MsgSend::type_url() {
            return Self::send(reader.read(&any.value)?);
        }
        if kind == MsgSubmitProposal::type_url() {
            return Self::submit(reader.read(&any.value)?, false);
        }
        if kind == MsgDeposit::type_url() {
            return Self::deposit(reader.read(&any.value)?, false);
        }
        if kind == MsgVote::type_url() {
            return Self::vote(reader.read(&any.value)?, false);
        }
        if kind == v1beta1::MsgSubmitProposal::type_url() {
            return Self::submit(text_proposal(reader.read(&any.value)?, reader)?, true);
        }
        if kind == v1beta1::MsgDeposit::type_url() {
            let v1beta1::MsgDeposit { proposal_id, depositor, amount } = reader.read(&any.value)?;
            return Self::deposit(MsgDeposit { proposal_id, depositor, amount }, true);
        }
        if kind == v1beta1::MsgVote::type_url() {
            let v1beta1::MsgVote { proposal_id, voter, option } = reader.read(&any.value)?;
            let vote = MsgVote { proposal_id, voter, option, ..MsgVote::default() };
            return Self::vote(vote, true);
        }
        if kind == vm_proto::MsgEthereumTx::type_url() {
            return Err(invalid_type(
                "MsgEthereumTx needs to be contained within a tx with \
                 'ExtensionOptionsEthereumTx' option",
            ));
        }
        if is_update(kind) {
            return Err(gov_invalid_signer(
                "invalid authority; only a proposal that passed updates parameters",
            ));
        }
        Err(tx_decode(format!("unable to resolve type URL {kind}")))
    }

    fn send(message: MsgSend) -> Result<Self, Refusal> {
        let from = MessageAccount::read(&message.from_address)?;
        let to = MessageAccount::read(&message.to_address)?;
        let amount = positive_total(&message.amount)?;
        Ok(Self::Send(Send { from, to, coins: message.amount, amount }))
    }

    fn deposit(message: MsgDeposit, is_v1beta1: bool) -> Result<Self, Refusal> {
        let depositor = MessageAccount::read(&message.depositor)?;
        let amount = positive_total(&message.amount)?;
        let (proposal, coins) = (message.proposal_id, message.amount);
        Ok(Self::Deposit(Deposit { proposal, depositor, coins, amount, is_v1beta1 }))
    }

    fn vote(message: MsgVote, is_v1beta1: bool) -> Result<Self, Refusal> {
        let voter = MessageAccount::read(&message.voter)?;
        let option = match VoteOption::try_from(message.option) {
            Ok(VoteOption::Unspecified) | Err(_) => {
                return Err(gov_invalid_vote(format!("{} is no option", message.option)));
            }
            Ok(option) => option,
        };
        metadata(&message.metadata)?;
        let (proposal, metadata) = (message.proposal_id, message.metadata);
        Ok(Self::Vote(Vote { proposal, voter, option, metadata, is_v1beta1 }))
    }

    fn submit(message: MsgSubmitProposal, is_v1beta1: bool) -> Result<Self, Refusal> {
        let proposer = MessageAccount::read(&message.proposer)?;
        if message.title.is_empty() {
            return Err(gov_invalid_proposal("proposal title cannot be empty"));
        }
        if message.summary.is_empty() {
            return Err(gov_invalid_proposal("proposal summary cannot be empty"));
        }
        let title = message.title.chars().count();
        if title > MAX_METADATA_CHARS {
            return Err(gov_metadata_too_long(format!("got title with length {title}")));
        }
        metadata(&message.metadata)?;
        let summary = message.summary.chars().count();
        if summary > MAX_SUMMARY_CHARS {
            return Err(gov_summary_too_long(format!("got summary with length {summary}")));
        }
        let proposed = message.messages.len();
        if proposed > MAX_PROPOSED {
            return Err(gov_invalid_proposal(format!(
                "{proposed} messages: at most {MAX_PROPOSED} in one proposal"
            )));
        }
        let deposit = coin::total(&message.initial_deposit)?;
        let updates = message.messages.iter().map(read_update).collect::<Result<_, _>>()?;
        Ok(Self::Submit(Box::new(Submission { proposer, updates, deposit, message, is_v1beta1 })))
    }

    /// Returns whether an address was received in upper case. The Amino document has every address in lower case.
    pub(super) fn has_upper_case_address(&self) -> bool {
        let of_recipient = matches!(self, Self::Send(send) if send.to.is_upper_case);
        of_recipient || self.signer().is_upper_case
    }

    /// Returns the protobuf type URL.
    pub fn type_url(&self) -> String {
        match self {
            Self::Send(_) => MsgSend::type_url(),
            Self::Submit(message) if message.is_v1beta1 => v1beta1::MsgSubmitProposal::type_url(),
            Self::Submit(_) => MsgSubmitProposal::type_url(),
            Self::Deposit(message) if message.is_v1beta1 => v1beta1::MsgDeposit::type_url(),
            Self::Deposit(_) => MsgDeposit::type_url(),
            Self::Vote(message) if message.is_v1beta1 => v1beta1::MsgVote::type_url(),
            Self::Vote(_) => MsgVote::type_url(),
        }
    }

    /// Returns whether the message was sent as a message of `cosmos.gov.v1beta1`, which older wallets use.
    pub const fn is_v1beta1(&self) -> bool {
        match self {
            Self::Send(_) => false,
            Self::Submit(submission) => submission.is_v1beta1,
            Self::Deposit(deposit) => deposit.is_v1beta1,
            Self::Vote(vote) => vote.is_v1beta1,
        }
    }

    /// Returns the module that executes the message.
    pub const fn module(&self) -> &'static str {
        match self {
            Self::Send(_) => "bank",
            Self::Submit(_) | Self::Deposit(_) | Self::Vote(_) => "gov",
        }
    }

    /// Returns the account that must sign the message.
    pub const fn signer(&self) -> &MessageAccount {
        match self {
            Self::Send(send) => &send.from,
            Self::Submit(submission) => &submission.proposer,
            Self::Deposit(deposit) => &deposit.depositor,
            Self::Vote(vote) => &vote.voter,
        }
    }

    /// Returns all accounts in the message: its signer, and the recipient of a transfer.
    pub(super) fn accounts(&self) -> impl Iterator<Item = &MessageAccount> {
        let other = match self {
            Self::Send(send) => Some(&send.to),
            _ => None,
        };
        std::iter::once(self.signer()).chain(other)
    }

    /// Returns the coins that leave the signer's account, as they were sent.
    pub(super) fn coins(&self) -> &[Coin] {
        match self {
            Self::Send(send) => &send.coins,
            Self::Submit(submission) => &submission.message.initial_deposit,
            Self::Deposit(deposit) => &deposit.coins,
            Self::Vote(_) => &[],
        }
    }

    /// Returns the amount that leaves the signer's account, in the token's base unit.
    pub(super) fn value(&self) -> U256 {
        match self {
            Self::Send(send) => send.amount,
            Self::Submit(submission) => submission.deposit,
            Self::Deposit(deposit) => deposit.amount,
            Self::Vote(_) => U256::ZERO,
        }
    }

    /// Returns the account that receives the amount of [`Self::value`], or the governance account if there is none.
    pub(super) fn recipient(&self) -> Address {
        match self {
            Self::Send(send) => send.to.address,
            _ => gov_address(),
        }
    }

    /// Returns the gas for executing the message, which is approximately the gas of a contract with the same writes.
    pub fn gas(&self) -> u64 {
        match self {
            Self::Send(_) => 21_000,
            Self::Submit(_) => 100_000,
            Self::Deposit(_) | Self::Vote(_) => 50_000,
        }
    }
}

/// Decodes a message of a proposal, which must set valid parameters with the governance account as its authority.
///
/// # Errors
/// Returns [`Refusal`] for other messages, another authority, or invalid parameters.
pub fn read_update(any: &Any) -> Result<Update, Refusal> {
    if any.type_url == feemarket_proto::MsgUpdateParams::type_url() {
        let message: feemarket_proto::MsgUpdateParams = canonical(&any.value)?;
        authority(&message.authority)?;
        let params = message.params.unwrap_or_default().encode_to_vec();
        let params = feemarket::Params::from_proto(&params);
        return params
            .map(Update::FeeMarket)
            .map_err(|error| gov_invalid_message(error.to_string()));
    }
    if any.type_url == vm_proto::MsgUpdateParams::type_url() {
        let message: vm_proto::MsgUpdateParams = canonical(&any.value)?;
        authority(&message.authority)?;
        let access = message.params.as_ref().and_then(|params| params.access_control.as_ref());
        let rules = access.into_iter().flat_map(|access| [&access.create, &access.call]);
        let listed = rules.flatten().map(|rule| rule.access_control_list.len()).max();
        if let Some(listed) = listed.filter(|listed| *listed > MAX_LISTED) {
            return Err(gov_invalid_message(format!(
                "{listed} addresses in an access control list: at most {MAX_LISTED}"
            )));
        }
        let params = EvmParams::try_from(message.params.unwrap_or_default());
        return params.map(Update::Evm).map_err(|error| gov_invalid_message(error.to_string()));
    }
    if any.type_url == distribution_proto::MsgUpdateParams::type_url() {
        let message: distribution_proto::MsgUpdateParams = canonical(&any.value)?;
        authority(&message.authority)?;
        let params = DistributionParams::try_from(message.params.unwrap_or_default());
        return params
            .map(Update::Distribution)
            .map_err(|error| gov_invalid_message(error.to_string()));
    }
    Err(gov_unroutable(any.type_url.clone()))
}

fn is_update(kind: &str) -> bool {
    [
        feemarket_proto::MsgUpdateParams::type_url(),
        vm_proto::MsgUpdateParams::type_url(),
        distribution_proto::MsgUpdateParams::type_url(),
    ]
    .iter()
    .any(|update| update == kind)
}

fn authority(text: &str) -> Result<(), Refusal> {
    match MessageAccount::read(text) {
        Ok(account) if account.address == gov_address() => Ok(()),
        _ => {
            let prefix = decode_any(text).map_or_else(|_| "cosmos".to_owned(), |(found, _)| found);
            let expected = keys::bech32(&prefix, gov_address());
            Err(gov_invalid_signer(format!("invalid authority; expected {expected}, got {text}")))
        }
    }
}

fn metadata(text: &str) -> Result<(), Refusal> {
    match text.chars().count() {
        length if length > MAX_METADATA_CHARS => {
            Err(gov_metadata_too_long(format!("got metadata with length {length}")))
        }
        _ => Ok(()),
    }
}

/// Returns the amount of exactly one coin, which must not be zero.
fn positive_total(coins: &[Coin]) -> Result<U256, Refusal> {
    match coin::total(coins)? {
        amount if amount.is_zero() => Err(invalid_coins("")),
        amount => Ok(amount),
    }
}

/// Converts a text proposal of `cosmos.gov.v1beta1` to `v1`, as the SDK does. The result changes no parameters.
fn text_proposal(
    message: v1beta1::MsgSubmitProposal,
    reader: &mut Reader,
) -> Result<MsgSubmitProposal, Refusal> {
    let content = message.content.ok_or_else(|| gov_invalid_content("missing content"))?;
    if content.type_url != v1beta1::TextProposal::type_url() {
        return Err(gov_no_handler(content.type_url));
    }
    let v1beta1::TextProposal { title, description } = reader.read(&content.value)?;
    let lengths = [
        ("title", &title, MAX_FORMER_TITLE_CHARS),
        ("description", &description, MAX_FORMER_DESCRIPTION_CHARS),
    ];
    for (name, text, limit) in lengths {
        if text.trim().is_empty() {
            return Err(gov_invalid_content(format!("proposal {name} cannot be blank")));
        }
        let length = text.chars().count();
        if length > limit {
            let text = format!("proposal {name} has {length} characters, max length is {limit}");
            return Err(gov_invalid_content(text));
        }
    }
    Ok(MsgSubmitProposal {
        initial_deposit: message.initial_deposit,
        proposer: message.proposer,
        title,
        summary: description,
        ..MsgSubmitProposal::default()
    })
}

/// Returns the signer, which must be the same for all messages.
pub(super) fn one_signer(messages: &[Message]) -> Result<MessageAccount, Refusal> {
    let first =
        messages.first().ok_or_else(|| invalid_request("must contain at least one message"))?;
    match messages.iter().find(|message| message.signer() != first.signer()) {
        None => Ok(first.signer().clone()),
        Some(_) => {
            Err(super::error::not_supported("messages of several signers in one transaction"))
        }
    }
}
