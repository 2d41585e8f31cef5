//! Checks the open-files limit and the address space of the process.

use crate::cli::start::connections;
use config::Config;
use home::doctor::{Failure, Report};
use rustix::process::{Resource, getrlimit};
use server::descriptors;

pub(super) fn check(report: &mut Report, config: &Config) {
    report.warn("machine.open-files", open_files(config));
    report.check("machine.memory-map", address_space(config));
}

/// Raises the open-files limit as a node does, and compares it with the number of connections that the settings allow.
fn open_files(config: &Config) -> Result<String, Failure> {
    let limit = descriptors::raise_limit();
    let available = descriptors::for_connections(limit, config.json_rpc.threads());
    let wanted = connections(config);
    if wanted <= available {
        return Ok(format!("the limit of {limit} open files allows {wanted} connections"));
    }
    Err(Failure::new(
        format!(
            "the limit of {limit} open files allows {available} connections, but the settings allow {wanted}: \
             the node lowers max-connections of its servers"
        ),
        "raise the hard limit (ulimit -Hn, or LimitNOFILE= of the service), or lower max-connections",
    ))
}

/// Checks the address-space limit, because LMDB maps each of the two environments completely.
fn address_space(config: &Config) -> Result<String, Failure> {
    let maps = config.storage.chain_map_bytes.saturating_add(config.storage.index_map_bytes);
    match getrlimit(Resource::As).current {
        Some(limit) if limit <= maps => Err(Failure::new(
            format!(
                "the address space is limited to {limit} bytes, but storage.chain-map-bytes and \
                 storage.index-map-bytes need {maps}"
            ),
            "remove the limit (ulimit -v unlimited), or lower these settings",
        )),
        Some(limit) => Ok(format!("the limit of the address space, {limit} bytes, is sufficient")),
        None => Ok("the address space is not limited".to_owned()),
    }
}
