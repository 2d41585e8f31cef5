//! The web pages of the node: a dashboard and a small explorer.
//!
//! Every page is HTML that the server renders, and works without JavaScript. A short script refreshes the part of the
//! dashboard that changes. Pages read the published view, the counters of the stages and the pool; they do not change
//! anything. The template library escapes everything that comes from the chain.
//!
//! Paths are those of Etherscan: `/block/N`, `/tx/HASH`, `/address/ADDRESS`.
//!
//! - [`text`] formats numbers, prices, amounts and times.
//! - `frame` renders the header and the footer of each page, and sets the headers of responses.
//! - `table` renders lists of blocks and transactions.
//! - `dashboard`, `block`, `tx`, `address`, `fees`, `governance`, `validators`, `search`: one kind of page each.

mod address;
mod block;
mod dashboard;
mod error;
mod fees;
mod frame;
mod governance;
mod plot;
mod reading;
mod routes;
mod samples;
mod search;
mod serve;
mod shared;
mod signatures;
mod table;
pub mod text;
mod tx;
mod validators;
mod workers;

pub use serve::serve;
pub use shared::Context;
