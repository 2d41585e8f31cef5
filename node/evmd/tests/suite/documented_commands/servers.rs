//! Runs the servers that the commands of a block start.

use crate::development::PROGRAM;
use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use testkit::NodeProcess;

/// The passphrase of keyrings that a node opens.
const PASSPHRASE: &str = "correct horse battery staple";

/// Kills a process when it is dropped.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // Both calls fail without effect if the process has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The servers of one scenario. Dropping this value kills them.
pub(super) struct Servers {
    /// The home folder of the user.
    user: PathBuf,
    node: Option<NodeProcess>,
    anvil: Option<NodeProcess>,
    noop: Option<(KillOnDrop, String)>,
}

impl Servers {
    pub(super) fn new(user: &Path) -> Self {
        let program = program(user);
        // Standard error of the node is part of the message of a failed test.
        let script = format!(
            "#!/bin/sh\nHOME={0} RUST_LOG=warn exec {PROGRAM} \"$@\" <{0}/passphrase 2>>{0}/node.log\n",
            user.display()
        );
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(user.join("passphrase"), format!("{PASSPHRASE}\n{PASSPHRASE}\n")).unwrap();
        Self { user: user.to_owned(), node: None, anvil: None, noop: None }
    }

    /// Starts a node with the options of `evmd start`. It first stops the node of an earlier command, as a reader has
    /// to do because both use the same addresses.
    pub(super) fn start_node(&mut self, folder: &Path, options: &[String]) {
        self.stop_node();
        let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
        let home = match options.iter().position(|option| *option == "--home") {
            Some(at) => folder.join(options.drain(at..at + 2).nth(1).unwrap()),
            None => self.user.join(".evmd"),
        };
        // The kernel chooses the ports, which `with_addresses` puts into the commands.
        while let Some(at) = options.iter().position(|option| option.ends_with("address")) {
            options.drain(at..at + 2);
        }
        self.node = Some(NodeProcess::start(&program(&self.user), &home, &options));
    }

    pub(super) fn stop_node(&mut self) {
        if let Some(mut node) = self.node.take() {
            node.stop();
        }
    }

    /// Starts a node of evmd instead of anvil, which CI does not have.
    pub(super) fn start_anvil(&mut self) {
        // The node of an earlier command is killed first, as in `start_node`.
        drop(self.anvil.take());
        let home = tempfile::tempdir_in(&self.user).unwrap().keep();
        self.anvil = Some(NodeProcess::start(&program(&self.user), &home, &[]));
    }

    /// Starts the example `jsonrpsee_noop` of the benchmarks.
    pub(super) fn start_noop(&mut self, program: &Path) {
        let mut command = Command::new(program);
        command.arg("127.0.0.1:0").stdout(Stdio::piped());
        let mut process = KillOnDrop(command.spawn().unwrap());
        let mut line = String::new();
        let mut output = BufReader::new(process.0.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").unwrap().to_owned();
        self.noop = Some((process, address));
    }

    pub(super) const fn node(&self) -> Option<&NodeProcess> {
        self.node.as_ref()
    }

    /// Replaces the addresses of the documents in a text by those of the running servers.
    pub(super) fn with_addresses(&self, text: &str) -> String {
        let mut text = text.to_owned();
        if let Some(node) = &self.node {
            let endpoints = node.endpoints();
            text = text
                .replace("127.0.0.1:8545", &endpoints.json_rpc.to_string())
                .replace("127.0.0.1:8547", &endpoints.ingest.to_string())
                .replace("127.0.0.1:1317", &endpoints.rest.to_string());
        }
        if let Some(anvil) = &self.anvil {
            text = text.replace("127.0.0.1:28545", &anvil.endpoints().json_rpc.to_string());
        }
        if let Some((_, address)) = &self.noop {
            text = text.replace("127.0.0.1:18545", address);
        }
        text
    }
}

/// A script that starts evmd for a user.
fn program(user: &Path) -> PathBuf {
    user.join("evmd-of-this-user")
}
