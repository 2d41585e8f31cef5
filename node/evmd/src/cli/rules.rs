//! `evmd rules` shows, adopts and cancels versions of the consensus rules.

use super::{HomeArg, Output, start_logs};
use chain::{RulesSchedule, RulesVersion};
use home::{Home, RulesReport};
use serde_json::{Value, json};
use std::io::Write;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Show the versions of the consensus rules and the heights at which they take effect; the node may be
    /// running
    Show(Show),
    /// Adopt a newer version at a block above the head; the node must be stopped. Every node of the chain, and
    /// every home folder that imports its blocks, must adopt the same version at the same height. Replaces an
    /// adoption that has not taken effect
    #[command(disable_version_flag = true)]
    Adopt(Adopt),
    /// Cancel an adoption that has not taken effect; the node must be stopped
    Cancel(Cancel),
}

#[derive(Debug, clap::Args)]
pub(super) struct Show {
    #[command(flatten)]
    home: HomeArg,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Debug, clap::Args)]
pub(super) struct Adopt {
    /// The version
    // The id must differ from the id of clap's own version flag.
    #[arg(id = "rules-version", long = "version", value_name = "NUMBER")]
    version: u32,
    /// The first block with these rules
    #[arg(long, value_name = "NUMBER")]
    height: u64,
    #[command(flatten)]
    home: HomeArg,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Debug, clap::Args)]
pub(super) struct Cancel {
    #[command(flatten)]
    home: HomeArg,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    start_logs("warn")?;
    let (home, output) = match command {
        Command::Show(args) => (&args.home, args.output),
        Command::Adopt(args) => {
            Home::open(&args.home.path()?)?.adopt_rules(args.version, args.height)?;
            (&args.home, args.output)
        }
        Command::Cancel(args) => {
            Home::open(&args.home.path()?)?.cancel_rules()?;
            (&args.home, args.output)
        }
    };
    print(&Home::rules_of(&home.path()?)?, output)
}

fn print(report: &RulesReport, output: Output) -> anyhow::Result<()> {
    let mut out = crate::cli::stdout();
    match output {
        Output::Json => writeln!(out, "{}", to_json(report))?,
        Output::Text => {
            let Some(schedule) = &report.schedule else {
                writeln!(
                    out,
                    "chain {} follows Ethereum's rules, which have no versions",
                    report.chain_id
                )?;
                return Ok(());
            };
            writeln!(
                out,
                "chain {}, head {}: rules version {} is in force; this program knows versions 0 to {}",
                report.chain_id,
                report.head,
                schedule.version(report.head),
                RulesVersion::NEWEST
            )?;
            for (version, height, source) in activations(schedule) {
                writeln!(out, "version {version} from block {height} on ({source})")?;
            }
        }
    }
    Ok(())
}

fn to_json(report: &RulesReport) -> Value {
    let activation = |(version, height, source): (RulesVersion, u64, &str)| json!({ "version": version.number(), "height": height, "source": source });
    json!({
        "chainId": report.chain_id,
        "head": report.head,
        "version": report.schedule.as_ref().map(|schedule| schedule.version(report.head).number()),
        "newest": RulesVersion::NEWEST.number(),
        "activations": report
            .schedule
            .as_ref()
            .map(|schedule| activations(schedule).map(activation).collect::<Vec<_>>()),
    })
}

/// Returns the version, height and origin of each activation: first those in the genesis, then the adopted ones.
fn activations(
    schedule: &RulesSchedule,
) -> impl Iterator<Item = (RulesVersion, u64, &'static str)> {
    let genesis = schedule.genesis().iter().map(|found| (found.version, found.height, "genesis"));
    let adopted = schedule.adopted().iter().map(|found| (found.version, found.height, "adopted"));
    genesis.chain(adopted)
}
