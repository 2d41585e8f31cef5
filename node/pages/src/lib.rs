//! The web pages of the node: a dashboard and a small explorer.
//!
//! Every page is HTML that the server renders, and works without JavaScript. A script of some lines replaces the parts that
//! change on the dashboard. Pages read the published view, the counters of the stages and, for pooled transactions, the
//! pool; they do not change anything. Everything that comes from the chain is escaped by the template library.
//!
//! Paths are those of Etherscan: `/block/N`, `/tx/HASH`, `/address/ADDRESS`.
//!
//! - [`text`]: figures for people.
//! - `frame`: what surrounds the contents of each page, and the headers of responses.
//! - `table`: lists of blocks and transactions.
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
