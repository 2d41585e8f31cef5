//! Reads the fenced code blocks of the documents.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Documents outside `docs` whose commands are tested.
const DOCUMENTS: [&str; 5] = [
    "README.md",
    "CONTRIBUTING.md",
    "verify/README.md",
    "verify/fuzz/README.md",
    "node/fuzz/README.md",
];

/// A fenced block.
#[derive(Debug)]
pub(super) struct Block {
    /// Path of the document in the repository.
    pub(super) file: String,
    /// The line of the fence, counted from 1.
    pub(super) line: usize,
    pub(super) language: String,
    /// The lines of the block without the indentation of the fence.
    pub(super) text: String,
}

impl Block {
    /// The commands without comments, each line with single spaces, separated by `; `.
    pub(super) fn commands(&self) -> String {
        let lines = self.text.lines().map(|line| {
            let command = if line.starts_with('#') { "" } else { line.split(" #").next().unwrap() };
            command.split_whitespace().collect::<Vec<_>>().join(" ")
        });
        lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
    }
}

/// The root folder of the repository.
pub(super) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Path and text of each document.
pub(super) fn documents() -> Vec<(String, String)> {
    let root = repository();
    let mut files: Vec<String> = DOCUMENTS.map(str::to_owned).to_vec();
    for entry in fs::read_dir(root.join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") {
            files.push(format!("docs/{name}"));
        }
    }
    files.sort();
    let text = |file: &String| fs::read_to_string(root.join(file)).unwrap();
    files.iter().map(|file| (file.clone(), text(file))).collect()
}

/// All blocks of the documents.
pub(super) fn blocks() -> Vec<Block> {
    documents().iter().flat_map(|(file, text)| blocks_of(file, text)).collect()
}

fn blocks_of(file: &str, text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((at, fence)) = lines.next() {
        let Some(language) = fence.trim_start().strip_prefix("```") else { continue };
        let indentation = fence.len() - fence.trim_start().len();
        let content = lines.by_ref().map(|(_, line)| line);
        let content = content.take_while(|line| !line.trim_start().starts_with("```"));
        let text: String =
            content.map(|line| format!("{}\n", line.get(indentation..).unwrap_or(""))).collect();
        let (file, language) = (file.to_owned(), language.to_owned());
        blocks.push(Block { file, line: at + 1, language, text });
    }
    blocks
}

#[test]
fn blocks_are_read_with_their_language_and_without_indentation() {
    let text = "a\n```sh\nx  1   # one\n\n# two\ny 2\n```\n- b\n  ```text\n  z\n  ```\n";
    let blocks = blocks_of("a.md", text);
    assert_eq!(blocks.len(), 2, "{blocks:?}");
    assert_eq!((blocks[0].line, blocks[0].language.as_str()), (2, "sh"));
    assert_eq!(blocks[0].commands(), "x 1; y 2");
    assert_eq!((blocks[1].line, blocks[1].language.as_str()), (9, "text"));
    assert_eq!(blocks[1].text, "z\n");
}
