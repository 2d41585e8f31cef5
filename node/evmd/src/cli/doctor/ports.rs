//! Checks that the addresses of the servers are free.

use config::Config;
use home::doctor::Failure;
use std::net::TcpListener;

/// Opens and closes a socket on each address in the settings.
pub(super) fn check(config: &Config) -> Result<String, Failure> {
    let all = config.listening();
    let in_use = all.iter().filter_map(|(setting, address)| {
        let error = TcpListener::bind(address).err()?;
        Some(format!("{setting} {address}: {error}"))
    });
    let in_use: Vec<_> = in_use.collect();
    if in_use.is_empty() {
        return Ok("the addresses of all servers are free".to_owned());
    }
    Err(Failure::new(
        in_use.join("; "),
        "stop the other program, change the setting (`off` switches a server off), or start with --port-offset",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::Listen;

    #[test]
    fn error_names_the_address_in_use_and_its_setting() {
        let mut config = Config::default();
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        for listen in [
            &mut config.json_rpc.address,
            &mut config.rest.address,
            &mut config.grpc.address,
            &mut config.comet.address,
            &mut config.metrics.address,
        ] {
            *listen = Listen::Off;
        }
        config.pages.address = Listen::At(address);
        let error = format!("{:?}", check(&config).unwrap_err());
        assert!(error.contains(&format!("pages.address {address}")), "{error}");
        drop(taken);
        assert_eq!(check(&config).unwrap(), "the addresses of all servers are free");
    }
}
