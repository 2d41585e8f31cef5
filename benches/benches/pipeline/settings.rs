//! The settings of a run, which are `key=value` arguments on the command line.

use alloy_primitives::Address;
use benches::{workload::Kind, world};
use home::Home;
use pipeline::{Mining, MiningControl, Options, SystemTimeSource};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use verify::Backend;

/// Gas of a plain transfer.
const TRANSFER_GAS: u64 = 21_000;

pub(crate) struct Settings {
    pub(crate) accounts: usize,
    pub(crate) skew: f64,
    pub(crate) count: u64,
    pub(crate) kind: Kind,
    pub(crate) import: bool,
    pub(crate) block: u64,
    pub(crate) window: u64,
    pub(crate) seed: u64,
    pub(crate) recover: usize,
    pub(crate) recent: Option<usize>,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) json: Option<PathBuf>,
}

impl Settings {
    pub(crate) fn read() -> Self {
        let mut settings = Self {
            accounts: 1_000_000,
            skew: 0.0,
            count: 1_000_000,
            kind: Kind::Transfers,
            import: false,
            block: 10_000,
            window: 4,
            seed: 1,
            recover: 2,
            recent: None,
            folder: None,
            json: None,
        };
        for argument in std::env::args().skip(1).filter(|argument| argument != "--bench") {
            let (key, value) = argument.split_once('=').expect("settings are key=value");
            let number = || value.replace('_', "").parse::<u64>().expect("a number");
            match key {
                "accounts" => settings.accounts = number() as usize,
                "skew" => settings.skew = value.parse().expect("a number"),
                "count" => settings.count = number(),
                "workload" => {
                    settings.kind = Kind::from_name(value).expect("transfers, erc20 or mixed");
                }
                "mode" => match value {
                    "ingest" => {}
                    "import" => settings.import = true,
                    _ => panic!("ingest or import"),
                },
                "block" => settings.block = number(),
                "window" => settings.window = number(),
                "seed" => settings.seed = number(),
                "recover" => settings.recover = number() as usize,
                "recent" => settings.recent = Some(number() as usize),
                "folder" => settings.folder = Some(value.into()),
                "json" => settings.json = Some(value.into()),
                _ => panic!("no setting {key}"),
            }
        }
        settings
    }

    const fn gas(&self) -> u64 {
        self.block * TRANSFER_GAS
    }

    pub(crate) fn home(&self, accounts: &[Address], path: &Path) -> Home {
        let mut home = world::copy_home(accounts, self.kind != Kind::Transfers, self.gas(), path);
        if let Some(recent) = self.recent {
            home.config.storage.recent_accounts = recent;
        }
        home
    }

    pub(crate) fn options(&self) -> Options {
        Options {
            transactions: Some("127.0.0.1:0".parse().expect("an address")),
            mining: Some(MiningControl::new(Mining::Every(Duration::from_millis(200)))),
            files: Vec::new(),
            forwarder: None,
            given_blocks: false,
            recover_workers: self.recover,
            backend: Backend::detect().expect("a backend"),
            certifier: None,
            clocks: SystemTimeSource::boxed,
        }
    }
}
