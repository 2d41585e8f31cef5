//! Checks that the commands in the documents work as written. Each fenced block with the language `sh` has an entry in
//! a table. It is run in a shell with smaller numbers, or left out for a reason that the entry states.
//!
//! In the shell, `shim.sh` replaces `evmd`, `loadtest`, `cargo` and others. It asks this process what to run. This
//! process starts nodes on free ports (`servers`) and reduces numbers (`reduce`). So `evmd start` returns when the
//! node serves requests, and the next command of the block runs as in another terminal.

mod benchmarks;
mod blocks;
mod entries;
mod entries_load;
mod inline;
mod reduce;
mod requests;
mod scenario;
mod servers;

use blocks::{Block, blocks};
use entries::{ENTRIES, Entry, Plan};
use entries_load::ENTRIES_LOAD;
use scenario::Scenario;

fn entries() -> impl Iterator<Item = Entry> {
    ENTRIES.iter().chain(ENTRIES_LOAD).copied()
}

/// The blocks with commands.
fn commands() -> Vec<Block> {
    blocks().into_iter().filter(|block| block.language == "sh").collect()
}

impl Entry {
    fn is_of(&self, block: &Block) -> bool {
        self.file == block.file && block.commands().starts_with(self.begins)
    }

    /// Runs the block of this entry.
    async fn run(&self, scenario: &Scenario, runs_benchmarks: bool) {
        let block = commands().into_iter().find(|block| self.is_of(block));
        let block = block.unwrap_or_else(|| panic!("{} has no block {}", self.file, self.begins));
        scenario::run(&block, scenario, runs_benchmarks).await;
    }
}

#[test]
fn each_block_of_commands_has_one_entry() {
    let mut wrong = Vec::new();
    for block in blocks().iter().filter(|block| block.language.is_empty()) {
        wrong.push(format!("{}:{}: add `sh` or `text` to the fence", block.file, block.line));
    }
    let commands = commands();
    for block in &commands {
        let count = entries().filter(|entry| entry.is_of(block)).count();
        if count != 1 {
            let Block { file, line, .. } = block;
            wrong.push(format!(
                "{file}:{line} has {count} entries, not 1: add one to documented_commands/entries.rs that \
                 runs the block or states why it is left out"
            ));
        }
    }
    for entry in entries() {
        let Entry { file, begins, .. } = entry;
        let count = commands.iter().filter(|block| entry.is_of(block)).count();
        if count != 1 {
            wrong.push(format!(
                "{file} has {count} blocks, not 1, that begin with the commands of an entry: correct or \
                 remove the entry {begins}"
            ));
        }
        if let Plan::Leave(reason) = entry.plan {
            println!("{file}: {begins}\n    {reason}");
        }
        if !TESTED.contains(&file) && matches!(entry.plan, Plan::Run(_)) {
            wrong.push(format!("{file} has no test in documented_commands/mod.rs"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs the blocks of a document that need neither clients nor benchmarks.
async fn run_document(file: &str) {
    for entry in entries().filter(|entry| entry.file == file) {
        if let Plan::Run(scenario) = entry.plan {
            entry.run(&scenario, false).await;
        }
    }
}

/// One test for each document.
macro_rules! documents {
    ($($test:ident: $file:literal,)*) => {
        const TESTED: &[&str] = &[$($file),*];
        $(
            #[tokio::test]
            async fn $test() {
                run_document($file).await;
            }
        )*
    };
}

documents! {
    commands_of_the_readme_succeed: "README.md",
    commands_about_accounts_succeed: "docs/accounts.md",
    commands_about_backups_and_upgrades_succeed: "docs/backups-and-upgrades.md",
    commands_of_the_benchmark_history_succeed: "docs/benchmark-history.md",
    commands_about_benchmarks_succeed: "docs/benchmarks.md",
    commands_about_cosmos_succeed: "docs/cosmos.md",
    commands_about_the_fee_market_succeed: "docs/fee-market.md",
    commands_about_load_testing_succeed: "docs/load-testing.md",
    commands_about_rules_succeed: "docs/rules.md",
    commands_about_fuzzing_succeed: "verify/fuzz/README.md",
}

#[tokio::test]
#[ignore = "needs cast: run .ci/clients"]
async fn blocks_that_need_clients_succeed() {
    for entry in entries() {
        if let Plan::RunWithClients(scenario) = entry.plan {
            entry.run(&scenario, false).await;
        }
    }
}

#[tokio::test]
#[ignore = "builds three benchmarks, which takes a minute"]
async fn blocks_with_benchmarks_succeed() {
    for entry in entries() {
        if let Plan::RunBenchmarks(scenario) = entry.plan {
            entry.run(&scenario, true).await;
        }
    }
}
