//! Renders the page of the validators, and the certificate of a block.

use crate::{error::PageError, frame::Page, reading::Reading, table, text};
use alloy_primitives::{Address, B256};
use certificates::{Certificate, Finalization, PublicKey};
use chain::{Native, Validator};
use maud::{Markup, html};
use state::{VotingReading, stored};
use std::{collections::BTreeMap, time::Duration};

/// Maximum number of the newest blocks whose proposers are counted.
const COUNTED_BLOCKS: u64 = 100;

pub(crate) fn page(reading: &Reading) -> Result<Page, PageError> {
    let Some(native) = reading.spec().native().filter(|native| has_validators(native)) else {
        let reason = "One node produces the blocks of this chain.".to_owned();
        return Err(PageError::NotFound(reason));
    };
    let voting = reading.pages.context.published.voting();
    let contents = html! {
        (figures(native, voting.as_ref()))
        (list(native, voting.as_ref(), &proposals(reading)?))
        p { "Each of them has one vote for each block. " (quorum(native)) " votes make a block final. The power counts for "
            a href="/governance" { "proposals" } " only." }
    };
    Ok(Page::new("Validators", contents))
}

/// Returns whether validators produce the blocks.
pub(crate) fn has_validators(native: &Native) -> bool {
    native.gov.consensus_validators().next().is_some()
}

fn quorum(native: &Native) -> usize {
    certificates::quorum(native.gov.consensus_validators().count())
}

/// Returns the number of blocks that each account proposed among the newest [`COUNTED_BLOCKS`].
fn proposals(reading: &Reading) -> Result<BTreeMap<Address, usize>, PageError> {
    let (blocks, head) = (reading.view.blocks()?, reading.view.number());
    let mut counts = BTreeMap::new();
    for number in (1..=head).rev().take(COUNTED_BLOCKS as usize) {
        let (_, header) = stored::header(&blocks, number)?;
        *counts.entry(header.beneficiary).or_default() += 1;
    }
    Ok(counts)
}

/// Renders what this node observed of the consensus, if it is a validator.
fn figures(native: &Native, voting: Option<&VotingReading>) -> Markup {
    let Some(voting) = voting else {
        return html! { p { "This node is not a validator, so it does not receive the votes." } };
    };
    html! {
        dl.figures {
            div { dt { "View" } dd { (text::grouped(voting.view)) } }
            div { dt { "Validators that vote" } dd { (voting.present()) " of " (voting.validators.len()) } }
            div { dt { "Votes for finality" } dd { (quorum(native)) } }
            div { dt { "Time to finality" } dd { (milliseconds(voting.finality.map(|[median, _]| median))) } }
            div { dt { "Of 95% of the blocks" } dd { (milliseconds(voting.finality.map(|[_, p95]| p95))) } }
            div { dt { "Skipped views" } dd { (text::grouped(voting.skipped_views)) } }
            div { dt { "Contradicting votes" } dd { (text::grouped(voting.contradictions)) } }
        }
    }
}

/// Formats a time, if it has been measured.
fn milliseconds(time: Option<Duration>) -> String {
    time.map_or_else(
        || "not known yet".to_owned(),
        |time| format!("{} ms", text::grouped(time.as_millis() as u64)),
    )
}

fn list(
    native: &Native,
    voting: Option<&VotingReading>,
    proposals: &BTreeMap<Address, usize>,
) -> Markup {
    let votes = |key: PublicKey| {
        let known = voting?.validators.iter().find(|(of, _)| *of == key.bytes());
        known.map(|(_, votes)| *votes)
    };
    html! {
        div.scroll tabindex="0" role="region" aria-label="Validators" {
            table {
                thead { tr {
                    th scope="col" { "Operator" } th scope="col" { "Consensus key" } th.number scope="col" { "Power" }
                    th.number scope="col" { "Blocks of the newest " (COUNTED_BLOCKS) }
                    @if voting.is_some() { th scope="col" { "Votes" } }
                } }
                tbody {
                    @for (validator, key) in native.gov.consensus_validators() {
                        tr {
                            td { (table::address_link(validator.address)) }
                            td.hash title=(key) { (text::short_hash(key.bytes())) }
                            td.number { (text::grouped(validator.power)) }
                            td.number { (proposals.get(&validator.address).copied().unwrap_or_default()) }
                            @if voting.is_some() { td {
                                @match votes(key) { Some(true) => "yes", _ => strong { "no" } }
                            } }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the rows about the certificate that proves a block. It may be the certificate of a later block.
pub(crate) fn certificate_rows(
    reading: &Reading,
    number: u64,
) -> Result<Vec<(&'static str, Markup)>, PageError> {
    let Some(native) = reading.spec().native() else { return Ok(Vec::new()) };
    let Some((of, encoded)) = reading.view.blocks()?.certificate_from(number)? else {
        return Ok(Vec::new());
    };
    // Certificates are checked before they are stored.
    let certificate = Certificate::decode(&encoded).map_err(PageError::failed)?;
    let signed = match &certificate {
        Certificate::Producer(certificate) => {
            html! { "the producer, term " (text::grouped(certificate.term)) }
        }
        Certificate::Validators(finalization) => signers(native, finalization),
    };
    let by = if of == number {
        signed
    } else {
        html! { (signed) ", with block " (table::block_link(of)) }
    };
    Ok(vec![("Signed by", by)])
}

fn signers(native: &Native, finalization: &Finalization) -> Markup {
    let accounts: BTreeMap<B256, Validator> = native
        .gov
        .consensus_validators()
        .map(|(validator, key)| (key.bytes(), validator))
        .collect();
    let signed = |at: usize| finalization.signers >> at & 1 == 1;
    let signers: Vec<_> = (0..).zip(accounts.values()).filter(|(at, _)| signed(*at)).collect();
    html! {
        (signers.len()) " of " (accounts.len()) " "
        a href="/validators" { "validators" } " in view " (text::grouped(finalization.view)) ": "
        @for (index, (_, validator)) in signers.iter().enumerate() {
            @if index > 0 { ", " }
            a.hash href={ "/address/" (validator.address) } { (text::short_address(validator.address)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chain::Genesis;

    fn native() -> Native {
        let validator = |byte| Validator {
            address: Address::repeat_byte(byte),
            power: 1,
            consensus_key: Some(certificates::SecretKey::from_bytes(&[byte; 32]).public()),
        };
        let genesis = Genesis::test_network(0, &[1, 2, 3, 4].map(validator)).unwrap();
        genesis.spec.native().unwrap().clone()
    }

    /// The signer bits of a certificate are in the order of the keys, not of the accounts.
    #[test]
    fn signers_are_shown_by_their_accounts() {
        let native = native();
        let keys = native.gov.consensus_keys();
        for (at, key) in keys.iter().enumerate() {
            let finalization = Finalization {
                view: 1_234,
                parent_view: 0,
                leader: B256::ZERO,
                parent: B256::ZERO,
                signers: 1 << at,
                signatures: Vec::new(),
            };
            let mut validators = native.gov.consensus_validators();
            let (validator, _) = validators.find(|(_, of)| of == key).unwrap();
            let shown = signers(&native, &finalization).into_string();
            assert!(shown.starts_with("1 of 4 "), "{shown}");
            assert!(shown.contains("in view 1,234"), "{shown}");
            assert!(shown.contains(&format!("/address/{}", validator.address)), "{shown}");
        }
    }

    #[test]
    fn absent_validators_are_marked() {
        let native = native();
        let keys = native.gov.consensus_keys();
        let voting = state::Voting::new(keys.iter().map(|key| key.bytes()).collect());
        voting.voted(2);
        let counts = BTreeMap::from([(Address::repeat_byte(1), 7)]);
        let shown = list(&native, Some(&voting.read()), &counts).into_string();
        assert_eq!(shown.matches("<td>yes</td>").count(), 1, "{shown}");
        assert_eq!(shown.matches("<strong>no</strong>").count(), 3, "{shown}");
        assert!(shown.contains(">7</td>"), "{shown}");
        let shown = list(&native, None, &counts).into_string();
        assert!(!shown.contains("Votes"), "{shown}");
    }
}
