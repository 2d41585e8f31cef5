//! `evmd query txs` finds mined transactions by their events.

use super::rest::{RestArgs, escape};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Conditions, such as "message.sender='cosmos1...' AND tx.height>100"
    #[arg(long)]
    query: String,
    /// Number of the page, starting at 1
    #[arg(long, default_value_t = 1)]
    page: u64,
    /// Transactions per page, at most 100
    #[arg(long, default_value_t = 100)]
    limit: u64,
    /// Order by height
    #[arg(long = "order_by", visible_alias = "order-by", value_enum, default_value_t = Order::Asc)]
    order: Order,
    #[command(flatten)]
    rest: RestArgs,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Order {
    /// Oldest first
    Asc,
    /// Newest first
    Desc,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let Args { page, limit, .. } = args;
    let order = match args.order {
        Order::Asc => "ORDER_BY_ASC",
        Order::Desc => "ORDER_BY_DESC",
    };
    let query = escape(&args.query);
    let parameters = format!("query={query}&page={page}&limit={limit}&order_by={order}");
    args.rest.show(&format!("/cosmos/tx/v1beta1/txs?{parameters}"))
}
