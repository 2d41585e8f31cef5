//! The reference server of `loadtest reads --each --yardstick URL`: one method that does nothing,
//! served over HTTP by jsonrpsee with default settings and as many threads as evmd has for its
//! sockets.
//!
//! Prints its address and runs until it is killed.

use jsonrpsee::{RpcModule, server::Server};
use std::io::Write;

fn main() -> anyhow::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:18545".to_owned());
    // One thread per core, as in evmd, but a single runtime, which is the default of jsonrpsee.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = Server::builder().build(address).await?;
        let mut module = RpcModule::new(());
        module.register_method("noop", |_, _, _| true)?;
        writeln!(std::io::stdout(), "http://{}", server.local_addr()?)?;
        server.start(module).stopped().await;
        Ok(())
    })
}
