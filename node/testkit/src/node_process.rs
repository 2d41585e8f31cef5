//! Runs a node in a process of its own.

use crate::Endpoints;
use rustix::process::{Pid, Signal};
use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

/// A running `evmd start`. Dropping this value kills the process, so that a failed test leaves no process behind.
#[derive(Debug)]
pub struct NodeProcess {
    child: Child,
    /// Keeps the pipe open: the node still prints the rest of its banner after the line that `start` waits for.
    banner: BufReader<ChildStdout>,
    endpoints: Endpoints,
    started_in: Duration,
}

impl NodeProcess {
    /// Runs `program start` with a home folder and `options`; returns when all servers listen. The kernel chooses their
    /// ports.
    pub fn start(program: &Path, home: &Path, options: &[&str]) -> Self {
        Self::start_at(program, home, options, Endpoints::chosen_by_kernel())
    }

    /// Like [`Self::start`], but the servers listen on the addresses in `endpoints`.
    pub fn start_at(program: &Path, home: &Path, options: &[&str], endpoints: Endpoints) -> Self {
        let begun = Instant::now();
        let mut child = Command::new(program)
            .args(["start", "--quiet"])
            .args(options)
            .args(endpoints.options())
            .arg("--home")
            .arg(home)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let banner = BufReader::new(child.stdout.take().unwrap());
        // From here on, a failed assertion drops `node`, which kills the process.
        let mut node = Self { child, banner, endpoints, started_in: Duration::ZERO };
        let mut line = String::new();
        while !line.starts_with("metrics") {
            line.clear();
            let length = node.banner.read_line(&mut line).unwrap();
            assert!(length > 0, "the node ended before it served requests");
            node.endpoints.read(&line);
        }
        node.started_in = begun.elapsed();
        node
    }

    /// The addresses that the node listens on.
    pub const fn endpoints(&self) -> Endpoints {
        self.endpoints
    }

    /// Time from the start of the process until it served requests.
    pub const fn started_in(&self) -> Duration {
        self.started_in
    }

    /// Stops the process as an operator does (SIGTERM) and waits until it has ended.
    pub fn stop(&mut self) {
        rustix::process::kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.child.wait().unwrap();
    }

    /// Suspends the process (SIGSTOP), like a machine that stalls. Its connections stay open.
    pub fn pause(&self) {
        rustix::process::kill_process(Pid::from_child(&self.child), Signal::STOP).unwrap();
    }

    /// Continues a suspended process (SIGCONT).
    pub fn resume(&self) {
        rustix::process::kill_process(Pid::from_child(&self.child), Signal::CONT).unwrap();
    }

    /// Kills the process (SIGKILL) and waits until it has ended.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        // Neither call has an effect if the process has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
