//! Compiles the definitions of `node/proto` into the messages and services of `node/proto/src/generated`, and into
//! descriptors for reflection and JSON. It needs `rustfmt`, but not `protoc`.
//!
//! `cargo run --manifest-path node/generate-proto/Cargo.toml` writes the files. They are checked in, so
//! that building the node needs no protobuf compiler. A test of the crate `proto` fails if a
//! definition was changed and the files were not written again.

use sha2::{Digest, Sha256};
use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The folder of the service that replicas use.
const REPLICATION_FOLDER: &str = "evmd/replication";

fn main() -> Result<(), Box<dyn Error>> {
    let node = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("the package is in `node`")?;
    let (definitions, generated) = (node.join("proto"), node.join("proto/src/generated"));
    let mut files = Vec::new();
    collect(&definitions, &definitions, &mut files)?;
    files.sort();

    // The code of the replication service, of which a node is also a client, is written to the crate `replication`. The
    // service is not part of the descriptors, which the Cosmos interfaces serve.
    let (of_replicas, others): (Vec<_>, Vec<_>) =
        files.iter().partition(|file| file.starts_with(REPLICATION_FOLDER));
    let compiler = compile(&definitions, &others)?;

    if generated.exists() {
        fs::remove_dir_all(&generated)?;
    }
    fs::create_dir_all(&generated)?;
    // The compiler encodes the set itself, because `FileDescriptorSet` loses custom options.
    fs::write(generated.join("descriptors.bin"), compiler.encode_file_descriptor_set())?;
    tonic_prost_build::configure()
        .out_dir(&generated)
        .build_client(false)
        .build_transport(false)
        .include_file("all.rs")
        // The messages of both packages are the same on the wire, so they share their Rust types.
        .extern_path(".feemarket.v1", "crate::cosmos::evm::feemarket::v1")
        .compile_fds_with_config(compiler.file_descriptor_set(), config())?;
    let of_replication = node.join("replication/src/generated");
    fs::create_dir_all(&of_replication)?;
    let mut config = config();
    // Blocks are large, and their fields are slices of the message.
    config.bytes([".evmd.replication.v1"]);
    tonic_prost_build::configure()
        .out_dir(&of_replication)
        .build_transport(false)
        .compile_fds_with_config(
            compile(&definitions, &of_replicas)?.file_descriptor_set(),
            config,
        )?;
    format(&of_replication)?;
    format(&generated)?;
    fs::write(generated.join("sources.txt"), sources(&definitions, &files)?)?;
    Ok(())
}

fn compile(definitions: &Path, files: &[&PathBuf]) -> Result<protox::Compiler, Box<dyn Error>> {
    let mut compiler = protox::Compiler::new([definitions])?;
    compiler.include_imports(true).include_source_info(true);
    compiler.open_files(files)?;
    Ok(compiler)
}

fn config() -> prost_build::Config {
    let mut config = prost_build::Config::new();
    // Comments of messages are left out: the definitions have them.
    config.enable_type_names().disable_comments(["."]);
    config
}

/// Formats the code like that of the workspace, which is shorter than the generator's own format.
fn format(generated: &Path) -> Result<(), Box<dyn Error>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(generated)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    let status = Command::new("rustfmt").args(["--edition", "2024"]).args(files).status()?;
    if status.success() { Ok(()) } else { Err("rustfmt failed".into()) }
}

/// Returns one line for each definition: its SHA-256 and its path. A test of `proto` compares them with the files.
fn sources(definitions: &Path, files: &[PathBuf]) -> Result<String, Box<dyn Error>> {
    let mut lines = String::new();
    for file in files {
        let digest = Sha256::digest(fs::read(definitions.join(file))?);
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        lines.push_str(&format!("{hex}  {}\n", file.display()));
    }
    Ok(lines)
}

/// Collects the definitions below a folder, by the paths under which other definitions import them.
fn collect(root: &Path, folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "proto") {
            files.push(path.strip_prefix(root)?.to_owned());
        }
    }
    Ok(())
}
