//! Runs the commands of a block in a shell.

use super::{
    blocks::Block,
    requests::{Reply, Request, in_repository},
    servers::Servers,
};
use rustix::process::{Pid, Signal, kill_process_group};
use std::{
    fs::{self, File},
    net::Ipv4Addr,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
};

/// Maximum duration of the commands of a block. The slowest block takes 20 s on two busy cores.
const MAX_SCENARIO: Duration = Duration::from_secs(600);
/// The commands that the shim replaces. `stop-node` is for scenarios only.
const COMMANDS: [&str; 6] = ["evmd", "loadtest", "cargo", "anvil", "npx", "stop-node"];
/// The file with everything that the shell printed.
const OUTPUT: &str = "output.log";

/// How a block is run.
#[derive(Clone, Copy)]
pub(super) struct Scenario {
    /// Shell commands that prepare the folder. They may use `$REPOSITORY` and `stop-node`.
    pub(super) before: &'static str,
    /// Texts of the block and their replacements.
    pub(super) replaced: &'static [(&'static str, &'static str)],
    /// Commands that check the result.
    pub(super) after: &'static str,
    /// Texts that the commands must print.
    pub(super) printed: &'static [&'static str],
}

impl Scenario {
    pub(super) const PLAIN: Self = Self { before: "", replaced: &[], after: "", printed: &[] };

    pub(super) const fn after(before: &'static str) -> Self {
        Self { before, ..Self::PLAIN }
    }

    fn script(&self, block: &Block) -> String {
        let mut text = block.text.clone();
        for (from, to) in self.replaced {
            assert!(text.contains(from), "{}: {from} is not in\n{text}", block.file);
            text = text.replace(from, to);
        }
        // A command that starts a server returns when the server listens, so that it need not be in the background.
        let lines = text.lines().map(|line| line.strip_suffix(" &").unwrap_or(line));
        let text = lines.collect::<Vec<_>>().join("\n");
        format!("set -euo pipefail\n{}\nset -x\n{text}\n{}\n", self.before, self.after)
    }
}

/// Kills the processes of a shell when it is dropped.
struct Group(Pid);

impl Drop for Group {
    fn drop(&mut self) {
        // This fails if all processes have ended.
        let _ = kill_process_group(self.0, Signal::KILL);
    }
}

/// Creates the shims in the folder of the user, and links to the files that commands name by a relative path.
fn prepare(user: &Path) {
    let [shims, benches] = ["shims", "benches"].map(|name| user.join(name));
    fs::create_dir(&shims).unwrap();
    fs::create_dir(&benches).unwrap();
    let shim = shims.join("shim");
    fs::write(&shim, include_str!("shim.sh")).unwrap();
    fs::set_permissions(&shim, fs::Permissions::from_mode(0o755)).unwrap();
    for name in COMMANDS {
        symlink(&shim, shims.join(name)).unwrap();
    }
    symlink(&shim, benches.join("compare")).unwrap();
    symlink(in_repository("benches/saturation"), benches.join("saturation")).unwrap();
    if let Some(modules) = std::env::var_os("NODE_PATH") {
        symlink(modules, user.join("node_modules")).unwrap();
    }
}

fn shell(user: &Path, script: &str, port: u16) -> Child {
    let path = std::env::var("PATH").unwrap();
    let output = File::create(user.join(OUTPUT)).unwrap();
    Command::new("bash")
        .args(["-c", script])
        .current_dir(user)
        .env("HOME", user)
        .env("PATH", format!("{}:{path}", user.join("shims").display()))
        .env("REPOSITORY", in_repository(""))
        .env("DOCUMENTED_COMMANDS_PORT", port.to_string())
        .env_remove("EVMD_HOME")
        .env_remove("EVMD_NODE")
        .env_remove("EVMD_KEYRING_BACKEND")
        .env_remove("ETH_RPC_URL")
        .stdin(Stdio::null())
        .stdout(output.try_clone().unwrap())
        .stderr(output)
        .process_group(0)
        .spawn()
        .unwrap()
}

/// Reads a request of the shim.
async fn request(stream: &mut TcpStream) -> Request {
    let mut lines = BufReader::new(stream).lines();
    let mut line = async || lines.next_line().await.unwrap().unwrap();
    let count: usize = line().await.parse().unwrap();
    let (folder, rpc_url, name) = (line().await.into(), line().await, line().await);
    let mut arguments = Vec::new();
    for _ in 0..count {
        arguments.push(line().await);
    }
    Request { folder, rpc_url, name, arguments }
}

async fn send(mut stream: TcpStream, reply: Reply) {
    stream.write_all(format!("{}\n", reply.join("\n")).as_bytes()).await.unwrap();
}

/// Serves the requests of the shims until the shell ends. Returns its exit status.
async fn serve(
    listener: &TcpListener,
    shell: &mut Child,
    servers: &mut Servers,
    runs_benchmarks: bool,
) -> ExitStatus {
    loop {
        tokio::select! {
            status = shell.wait() => return status.unwrap(),
            accepted = listener.accept() => {
                let (mut stream, _) = accepted.unwrap();
                let request = request(&mut stream).await;
                send(stream, servers.reply(&request, runs_benchmarks)).await;
            }
        }
    }
}

/// Runs a block, which must succeed.
pub(super) async fn run(block: &Block, scenario: &Scenario, runs_benchmarks: bool) {
    let begun = Instant::now();
    let folder = tempfile::tempdir().unwrap();
    let user = folder.path();
    prepare(user);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut servers = Servers::new(user);
    let mut shell = shell(user, &scenario.script(block), port);
    let id = i32::try_from(shell.id().unwrap()).unwrap();
    let _group = Group(Pid::from_raw(id).unwrap());
    let served = serve(&listener, &mut shell, &mut servers, runs_benchmarks);
    let status = tokio::time::timeout(MAX_SCENARIO, served).await;
    let read = |name: &str| fs::read_to_string(user.join(name)).unwrap_or_default();
    let (output, log) = (read(OUTPUT), read("node.log"));
    let at = format!("{}:{}", block.file, block.line);
    let status =
        status.unwrap_or_else(|_| panic!("{at} runs longer than {MAX_SCENARIO:?}\n{output}"));
    assert!(status.success(), "{at} failed ({status})\n{output}\nThe node printed:\n{log}");
    for text in scenario.printed {
        assert!(output.contains(text), "{at} did not print {text}\n{output}");
    }
    println!("{at}, {:?}\n{output}", begun.elapsed());
}
