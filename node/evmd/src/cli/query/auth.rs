//! `evmd query auth` queries accounts.

use super::rest::{RestArgs, escape};
use serde_json::{Value, json};

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// An account
    Account {
        /// Address in any format
        address: String,
        #[command(flatten)]
        rest: RestArgs,
    },
    /// All accounts, by address
    Accounts {
        /// Maximum number of accounts to show
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: u32,
        /// Where to continue: the next_key of the previous page
        #[arg(long, value_name = "BASE64")]
        page_key: Option<String>,
        #[command(flatten)]
        rest: RestArgs,
    },
    /// A module account, by the name of its module
    ModuleAccount {
        /// Name of the module, for example gov
        name: String,
        #[command(flatten)]
        rest: RestArgs,
    },
    /// All module accounts
    ModuleAccounts(RestArgs),
    /// Parameters of accounts
    Params(RestArgs),
}

const ROOT: &str = "/cosmos/auth/v1beta1";

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    let (rest, path) = match command {
        Command::Account { address, rest } => (rest, format!("accounts/{}", escape(address))),
        Command::Accounts { limit, page_key, rest } => {
            let key = page_key.as_deref().map(|key| format!("&pagination.key={}", escape(key)));
            let key = key.unwrap_or_default();
            (rest, format!("accounts?pagination.limit={limit}{key}"))
        }
        Command::ModuleAccount { name, rest } => {
            (rest, format!("module_accounts/{}", escape(name)))
        }
        Command::ModuleAccounts(rest) => (rest, "module_accounts".to_owned()),
        Command::Params(rest) => (rest, "params".to_owned()),
    };
    let mut response = rest.get(&format!("{ROOT}/{path}"))?;
    if let Some(account) = response.get_mut("account") {
        *account = typed(account.take());
    }
    if let Some(accounts) = response.get_mut("accounts").and_then(Value::as_array_mut) {
        accounts.iter_mut().for_each(|account| *account = typed(account.take()));
    }
    rest.print(&response)
}

/// Converts an account to the format of cosmos/evm's command line: an object with `type` and `value`.
fn typed(mut account: Value) -> Value {
    let kind = account.as_object_mut().and_then(|fields| fields.remove("@type"));
    for name in ["", "base_account"] {
        let fields = if name.is_empty() { Some(&mut account) } else { account.get_mut(name) };
        let Some(fields) = fields.and_then(Value::as_object_mut) else { continue };
        if let Some(key) = fields.remove("pub_key") {
            fields.insert("public_key".to_owned(), key);
        }
    }
    json!({ "type": kind, "value": account })
}
