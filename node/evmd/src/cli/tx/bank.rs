//! `evmd tx bank` sends tokens in a Cosmos transaction.

use super::{flags::TxFlags, send::send};
use anyhow::{Context, ensure};
use keys::{bech32, parse_address};
use prost::{Message, Name};
use prost_types::Any;
use proto::cosmos::bank::v1beta1::MsgSend;
use transactions::cosmos::parse_coin;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Send tokens from a key to an address
    Send {
        /// Name or address of the sender's key
        from: String,
        /// Address in any format
        to: String,
        /// Amount, such as 10atest
        amount: String,
        /// The same as FROM, for scripts that name the sender twice
        #[arg(long = "from", value_name = "KEY", hide = true)]
        again: Option<String>,
        #[command(flatten)]
        flags: Box<TxFlags>,
    },
}

pub(super) fn run(command: Command) -> anyhow::Result<()> {
    let Command::Send { from, to, amount, again, flags } = command;
    if let Some(again) = again {
        ensure!(again == from, "--from {again}: the sender is {from}");
    }
    send(&flags, &from, |sender| {
        let prefix = sender.rsplit_once('1').map_or("", |(prefix, _)| prefix);
        let to = parse_address(&to, prefix).with_context(|| to.clone())?;
        let message = MsgSend {
            from_address: sender.to_owned(),
            to_address: bech32(prefix, to),
            amount: vec![parse_coin(&amount)?],
        };
        Ok(vec![Any { type_url: MsgSend::type_url(), value: message.encode_to_vec() }])
    })
}
