//! Chooses what runs instead of a command of a document.

use super::{benchmarks, blocks::repository, reduce, servers::Servers};
use crate::development::PROGRAM;
use std::path::{Path, PathBuf};

/// A command as the shell received it.
pub(super) struct Request {
    /// The working folder.
    pub(super) folder: PathBuf,
    /// The variable `ETH_RPC_URL`.
    pub(super) rpc_url: String,
    pub(super) name: String,
    pub(super) arguments: Vec<String>,
}

/// The program and the arguments that the shell runs.
pub(super) type Reply = Vec<String>;

/// A program that is built with the tests.
pub(super) fn built(name: &str) -> PathBuf {
    let path = Path::new(PROGRAM).with_file_name(name);
    assert!(path.exists(), "{} does not exist: run `cargo test --workspace`", path.display());
    path
}

fn reply(program: &Path, arguments: impl IntoIterator<Item = String>) -> Reply {
    let program = program.to_str().unwrap().to_owned();
    std::iter::once(program).chain(arguments).collect()
}

fn success() -> Reply {
    vec!["true".to_owned()]
}

/// A command that prints a message and fails.
pub(super) fn failure(message: &str) -> Reply {
    ["bash", "-c", "echo \"$0\" >&2; exit 2", message].map(str::to_owned).to_vec()
}

/// The first program of this name in `PATH`.
fn installed(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|at| at.exists());
    found.unwrap_or_else(|| panic!("{name} is not installed"))
}

impl Servers {
    /// Carries out a command, or returns what the shell runs for it. If `runs_benchmarks` is false, the arguments of
    /// `cargo bench` are checked, but it is not run.
    pub(super) fn reply(&mut self, request: &Request, runs_benchmarks: bool) -> Reply {
        let Request { folder, arguments, .. } = request;
        let arguments: Vec<_> = arguments.iter().map(|text| self.with_addresses(text)).collect();
        match request.name.as_str() {
            "evmd" => self.evmd(folder, &arguments),
            "loadtest" => self.loadtest(&arguments),
            "anvil" => self.anvil(&arguments),
            "stop-node" => {
                self.stop_node();
                success()
            }
            "npx" => self.npx(&request.rpc_url, arguments),
            "compare" => benchmarks::compare(arguments),
            "cargo" => self.cargo(folder, &arguments, runs_benchmarks),
            name => failure(&format!("add {name} to {}", file!())),
        }
    }

    fn evmd(&mut self, folder: &Path, arguments: &[String]) -> Reply {
        match arguments {
            [command, options @ ..] if command == "start" => {
                self.start_node(folder, options);
                success()
            }
            _ => reply(Path::new(PROGRAM), arguments.to_vec()),
        }
    }

    fn loadtest(&self, arguments: &[String]) -> Reply {
        let mut arguments = reduce::loadtest(arguments);
        let scenario = arguments[0].clone();
        let given = |arguments: &[String], name: &str| arguments.iter().any(|word| word == name);
        let needs_node =
            !["genesis", "kill"].contains(&&*scenario) && !given(&arguments, "--offline");
        if !needs_node {
            return reply(&built("loadtest"), arguments);
        }
        let Some(node) = self.node() else { return failure("no command has started a node") };
        let endpoints = node.endpoints();
        if !given(&arguments, "--url") {
            arguments.extend(["--url".to_owned(), format!("http://{}", endpoints.json_rpc)]);
        }
        if scenario == "tx" && !given(&arguments, "--ingest") {
            arguments.extend(["--ingest".to_owned(), endpoints.ingest.to_string()]);
        }
        if scenario == "attack" {
            let ports = [
                ("ws", endpoints.web_socket),
                ("rest", endpoints.rest),
                ("grpc", endpoints.grpc),
                ("comet", endpoints.comet),
                ("ingest", endpoints.ingest),
                ("metrics", endpoints.metrics),
            ];
            for (name, address) in ports {
                arguments.extend(["--ports".to_owned(), format!("{name}={}", address.port())]);
            }
        }
        reply(&built("loadtest"), arguments)
    }

    fn anvil(&mut self, arguments: &[String]) -> Reply {
        let known = ["--block-time", "--gas-limit", "--port"];
        let unknown = arguments.iter().step_by(2).find(|option| !known.contains(&option.as_str()));
        if let Some(option) = unknown {
            return failure(&format!("add {option} of anvil to {}", file!()));
        }
        self.start_anvil();
        success()
    }

    /// The client libraries are those that `.ci/clients` has installed. Nothing is downloaded.
    fn npx(&self, rpc_url: &str, arguments: Vec<String>) -> Reply {
        let url = format!("ETH_RPC_URL={}", self.with_addresses(rpc_url));
        let npx = installed("npx").to_str().unwrap().to_owned();
        let words = [url, "npm_config_offline=true".to_owned(), npx].into_iter().chain(arguments);
        reply(Path::new("env"), words)
    }

    fn cargo(&mut self, folder: &Path, arguments: &[String], runs_benchmarks: bool) -> Reply {
        let own = arguments.iter().take_while(|word| *word != "--").count();
        let rest = arguments.get(own + 1..).unwrap_or_default();
        let own: Vec<&str> = arguments[..own].iter().map(String::as_str).collect();
        match own[..] {
            ["run", "--release"] => self.evmd(folder, rest),
            ["run", "--release", "-p", "loadtest"] => self.loadtest(rest),
            ["run", "--release", "-p", "benches", "--example", name] => {
                self.start_noop(&built(&format!("examples/{name}")));
                success()
            }
            // The programs are already built, and these tests are part of the workspace.
            ["build", "--release", "-p", "evmd", "-p", "loadtest"] | ["test", "--workspace"] => {
                success()
            }
            ["bench", ..] => benchmarks::bench(&own[1..], rest, runs_benchmarks),
            _ => failure(&format!("add `cargo {}` to {}", own.join(" "), file!())),
        }
    }
}

/// The absolute path of a file of the repository.
pub(super) fn in_repository(path: &str) -> String {
    repository().join(path).to_str().unwrap().to_owned()
}
