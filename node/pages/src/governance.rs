//! Renders the pages of governance: proposals, deposits, votes and parameter changes.

use crate::{
    error::PageError,
    fees,
    frame::{Page, terms},
    reading::Reading,
    text,
};
use chain::DistributionParams;
use maud::{Markup, html};
use modules::gov::{Entry, GovState, Governance};
use prost_types::{Any, Timestamp};
use proto::cosmos::{
    base::v1beta1::Coin,
    gov::v1::{Proposal, ProposalStatus, VoteOption},
};
use transactions::{Update, cosmos::read_update};

/// Maximum number of proposals on a page.
const PROPOSALS_PER_PAGE: usize = 50;
/// Maximum number of deposits, and of votes, that are shown.
const MAX_SHOWN: usize = 200;

fn state(reading: &Reading) -> Result<&GovState, PageError> {
    let modules = reading.view.head.modules.as_deref();
    let governance: Option<&Governance> = modules.map(|modules| &modules.gov);
    governance.map(Governance::state).ok_or_else(|| {
        PageError::NotFound("A chain that follows Ethereum's rules has no governance.".to_owned())
    })
}

/// Renders the list of proposals, newest first. With `?before=`, it begins below that number.
pub(crate) fn list(reading: &Reading) -> Result<Page, PageError> {
    let before = reading.number("before")?.unwrap_or(u64::MAX);
    let entries = state(reading)?.entries().rev().filter(|entry| entry.id() < before);
    let shown: Vec<_> = entries.take(PROPOSALS_PER_PAGE).collect();
    let last = shown.last().filter(|_| shown.len() == PROPOSALS_PER_PAGE);
    let contents = html! {
        @if shown.is_empty() { p { "There are no proposals." } }
        @else { (proposals(&shown)) }
        nav.pages aria-label="Pages" {
            @if let Some(last) = last { a href={ "/governance?before=" (last.id()) } { "Older" } }
        }
    };
    Ok(Page::new("Governance", contents))
}

fn proposals(entries: &[&Entry]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Proposals" {
            table {
                thead { tr {
                    th scope="col" { "Proposal" } th scope="col" { "Title" } th scope="col" { "Status" }
                    th scope="col" { "Submitted" } th scope="col" { "Voting ends" }
                } }
                tbody {
                    @for entry in entries {
                        @let proposal = entry.proposal();
                        tr {
                            td { a href={ "/governance/" (proposal.id) } { (proposal.id) } }
                            td.wrap { bdi { (text::printable(&proposal.title)) } }
                            td { (status(entry.status())) }
                            td { (moment(proposal.submit_time.as_ref())) }
                            td { (moment(proposal.voting_end_time.as_ref())) }
                        }
                    }
                }
            }
        }
    }
}

const fn status(status: ProposalStatus) -> &'static str {
    match status {
        ProposalStatus::DepositPeriod => "deposit period",
        ProposalStatus::VotingPeriod => "voting period",
        ProposalStatus::Passed => "passed",
        ProposalStatus::Rejected => "rejected",
        ProposalStatus::Failed => "failed",
        ProposalStatus::Unspecified => "unspecified",
    }
}

fn moment(time: Option<&Timestamp>) -> String {
    time.map_or_else(|| "not yet".to_owned(), ToString::to_string)
}

/// Formats amounts: the chain's token in whole tokens, other denominations unconverted.
fn coins(reading: &Reading, coins: &[Coin]) -> String {
    let token = reading.spec().token(reading.view.number());
    let in_wei = |coin: &Coin| {
        let amount = coin.amount.parse().ok().filter(|_| coin.denom == token.denom)?;
        token.unit.to_wei(amount)
    };
    let coin = |coin: &Coin| match in_wei(coin) {
        Some(wei) => format!("{} {}", text::amount(wei), reading.symbol()),
        None => text::printable(&format!("{} {}", coin.amount, coin.denom)),
    };
    let listed: Vec<_> = coins.iter().map(coin).collect();
    if listed.is_empty() { "none".to_owned() } else { listed.join(", ") }
}

/// Renders the page of a proposal.
pub(crate) fn page(reading: &Reading, id: &str) -> Result<Page, PageError> {
    let id: u64 =
        id.parse().map_err(|_| PageError::Invalid("A proposal has a number.".to_owned()))?;
    let entry = state(reading)?.entry(id);
    let entry = entry.ok_or_else(|| {
        PageError::NotFound(format!("There is no proposal {id}, or it ended long ago."))
    })?;
    let proposal = entry.proposal();
    let contents = html! {
        (summary(reading, entry, &proposal))
        h2 { "Messages" }
        @for message in &proposal.messages { (update(reading, message)) }
        (deposits(reading, entry))
        (votes(entry))
    };
    Ok(Page::new(format!("Proposal {id}"), contents))
}

fn summary(reading: &Reading, entry: &Entry, proposal: &Proposal) -> Markup {
    let mut rows = vec![
        ("Title", html! { bdi { (text::printable(&proposal.title)) } }),
        (
            "Status",
            html! {
                (status(entry.status()))
                @if entry.status() == ProposalStatus::VotingPeriod { ", votes are counted in the first block after its end" }
            },
        ),
        ("Summary", html! { bdi { (text::printable(&proposal.summary)) } }),
        (
            "Proposer",
            html! { a.hash href={ "/address/" (proposal.proposer) } { (proposal.proposer) } },
        ),
        ("Deposit", html! { (coins(reading, &proposal.total_deposit)) }),
        ("Submitted", html! { (moment(proposal.submit_time.as_ref())) }),
        ("Deposits until", html! { (moment(proposal.deposit_end_time.as_ref())) }),
        (
            "Voting",
            html! {
                (moment(proposal.voting_start_time.as_ref())) " to " (moment(proposal.voting_end_time.as_ref()))
            },
        ),
    ];
    let is_over =
        !matches!(entry.status(), ProposalStatus::DepositPeriod | ProposalStatus::VotingPeriod);
    if let Some(tally) = entry.final_tally().filter(|_| is_over) {
        rows.push((
            "Result",
            html! {
                "yes " (tally.yes_count) ", no " (tally.no_count) ", abstain " (tally.abstain_count)
                ", no with veto " (tally.no_with_veto_count)
            },
        ));
    }
    if !proposal.failed_reason.is_empty() {
        rows.push(("Failed because", html! { bdi { (text::printable(&proposal.failed_reason)) } }));
    }
    terms(&rows)
}

/// Renders the change of parameters that a message proposes, with the parameters in force.
fn update(reading: &Reading, message: &Any) -> Markup {
    let contents = match read_update(message) {
        Ok(Update::FeeMarket(params)) => match reading.view.head.market() {
            Some(market) => {
                let token = reading.spec().token(reading.view.number());
                changes(
                    &fees::parameters(market.params(), token),
                    &fees::parameters(&params, token),
                )
            }
            None => html! {},
        },
        Ok(Update::Evm(params)) => {
            html! { pre tabindex="0" { (text::printable(&format!("{params:?}"))) } }
        }
        Ok(Update::Distribution(params)) => {
            let modules = reading.view.head.modules.as_deref();
            let now = modules.and_then(|modules| modules.distribution);
            let row = |params: DistributionParams| {
                [("fee_recipient", params.fee_recipient.as_str_name().to_owned())]
            };
            changes(&row(now.unwrap_or_default()), &row(params))
        }
        Err(refusal) => html! { p { (text::printable(&refusal.to_string())) } },
    };
    html! {
        section {
            p { code { (text::printable(&message.type_url)) } }
            (contents)
        }
    }
}

/// Renders a table of parameters: in force now, and in the proposal.
fn changes(now: &[(&str, String)], proposed: &[(&str, String)]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Parameters" {
            table {
                thead { tr {
                    th scope="col" { "Parameter" } th scope="col" { "In force" } th scope="col" { "In the proposal" }
                } }
                tbody {
                    @for ((name, old), (_, new)) in now.iter().zip(proposed) {
                        tr {
                            th scope="row" { (name) }
                            td { (old) }
                            td { @if old == new { "unchanged" } @else { strong { (new) } } }
                        }
                    }
                }
            }
        }
    }
}

fn deposits(reading: &Reading, entry: &Entry) -> Markup {
    let shown: Vec<_> = entry.deposits().take(MAX_SHOWN).collect();
    html! {
        @if !shown.is_empty() {
            h2 { "Deposits" }
            dl {
                @for (address, deposit) in shown {
                    div { dt { a.hash href={ "/address/" (address) } { (text::short_address(*address)) } } dd { (coins(reading, &deposit.amount)) } }
                }
            }
        }
    }
}

fn votes(entry: &Entry) -> Markup {
    let shown: Vec<_> = entry.votes().take(MAX_SHOWN).collect();
    html! {
        @if !shown.is_empty() {
            h2 { "Votes" }
            dl {
                @for (address, vote) in shown {
                    div {
                        dt { a.hash href={ "/address/" (address) } { (text::short_address(*address)) } }
                        dd {
                            @for option in &vote.options {
                                (choice(option.option())) " "
                                @if vote.options.len() > 1 { "(weight " (text::without_zeros(&option.weight)) ") " }
                            }
                        }
                    }
                }
            }
        }
    }
}

const fn choice(option: VoteOption) -> &'static str {
    match option {
        VoteOption::Yes => "yes",
        VoteOption::No => "no",
        VoteOption::Abstain => "abstain",
        VoteOption::NoWithVeto => "no with veto",
        VoteOption::Unspecified => "unspecified",
    }
}
