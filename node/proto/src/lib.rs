//! Contains the messages and services of the definitions in this folder. `node/generate-proto` writes the files of
//! `generated/` from them; they are checked in, so that building the node needs no protobuf compiler.

#![allow(
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    clippy::all,
    rustdoc::all,
    unused_qualifications,
    reason = "generated; the .proto files document the items"
)]

include!("generated/all.rs");

/// The definitions of all messages and services, for reflection and for JSON: an encoded `FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");

#[cfg(test)]
mod tests {
    use alloy_primitives::hex;
    use sha2::{Digest, Sha256};
    use std::{collections::BTreeMap, fs, path::Path};

    /// Adds all definitions below `folder`: their paths relative to `root`, and their SHA-256 in hex.
    fn digests(root: &Path, folder: &Path, digests: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                self::digests(root, &path, digests);
            } else if path.extension().is_some_and(|extension| extension == "proto") {
                let digest = hex::encode(Sha256::digest(fs::read(&path).unwrap()));
                let name = path.strip_prefix(root).unwrap().display().to_string();
                digests.insert(name, digest);
            }
        }
    }

    #[test]
    fn generated_code_is_of_these_definitions() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).to_owned();
        let mut found = BTreeMap::new();
        digests(&root, &root, &mut found);
        let lines = include_str!("generated/sources.txt").lines();
        let written: BTreeMap<_, _> = lines
            .filter_map(|line| line.split_once("  "))
            .map(|(digest, name)| (name.to_owned(), digest.to_owned()))
            .collect();
        assert_eq!(
            found, written,
            "run `cargo run --manifest-path node/generate-proto/Cargo.toml`"
        );
    }
}
