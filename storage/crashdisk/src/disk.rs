//! A model of a file system that guarantees to keep only synced data.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::{OsStr, OsString},
    fmt,
    io::Result,
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
};

use crate::{
    record::{Event, Operation},
    tree::{Tree, walk},
};

/// An unsynced write may reach the disk only in part. Aligned blocks of this size are written completely
/// or not at all.
const PIECE_BYTES: u64 = 4096;
/// Index of the modelled folder in the list of nodes.
const ROOT: usize = 0;

/// A change of a file that has not been synced yet.
#[derive(Clone, Debug)]
enum Change {
    Write {
        at: u64,
        bytes: Vec<u8>,
    },
    /// A write that was synced by itself. It is applied again, because earlier unsynced changes may precede it.
    SyncedWrite {
        at: u64,
        bytes: Vec<u8>,
    },
    Length(u64),
}

/// Names in a folder that change together, with their new nodes; `None` for a removed name.
type Names = Vec<(OsString, Option<usize>)>;

#[derive(Clone, Debug)]
enum Node {
    File {
        synced: Vec<u8>,
        pending: Vec<Change>,
    },
    Folder {
        now: BTreeMap<OsString, usize>,
        synced: BTreeMap<OsString, usize>,
        pending: Vec<Names>,
    },
}

/// A rename that a power failure can undo, or keep without the contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The new name may be kept without the contents.
    ContentNotSynced {
        /// The new name.
        path: PathBuf,
        /// The unsynced path: the file, or a file in the folder.
        unsynced: PathBuf,
    },
    /// The new name may be lost, although the program has written output or ended after the rename.
    NameNotSynced {
        /// The new name.
        path: PathBuf,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ContentNotSynced { path, unsynced } => {
                write!(
                    f,
                    "{} was renamed and {} was not synced",
                    path.display(),
                    unsynced.display()
                )
            }
            Self::NameNotSynced { path } => {
                write!(f, "{} was renamed and its folder was not synced", path.display())
            }
        }
    }
}

/// A rename whose folder has not been synced yet.
#[derive(Clone, Debug)]
struct Renamed {
    thread: u64,
    folder: usize,
    path: PathBuf,
}

/// The files below one folder, with their synced and unsynced changes.
#[derive(Clone, Debug)]
pub struct Disk {
    root: PathBuf,
    nodes: Vec<Node>,
    /// Files and folders that have a name now.
    inodes: HashMap<u64, usize>,
    renamed: Vec<Renamed>,
    faults: Vec<Fault>,
}

impl Disk {
    /// Reads the files below `root` as synced. Only these files and later ones below `root` are
    /// modelled.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut disk = Self {
            root: root.to_owned(),
            nodes: vec![Node::folder()],
            inodes: HashMap::from([(std::fs::metadata(root)?.ino(), ROOT)]),
            renamed: Vec::new(),
            faults: Vec::new(),
        };
        walk(root, &mut |path, inode, bytes| {
            let node = bytes.map_or_else(Node::folder, Node::file);
            let id = disk.add(inode, node);
            if let Some((folder, name)) = disk.locate(path)
                && let Node::Folder { now, synced, .. } = &mut disk.nodes[folder]
            {
                now.insert(name.clone(), id);
                synced.insert(name, id);
            }
        })?;
        Ok(disk)
    }

    /// Applies an operation of the program.
    pub(crate) fn apply(&mut self, event: &Event) {
        match &event.operation {
            Operation::Open { path, inode, truncated } => self.open(path, *inode, *truncated),
            Operation::Write { inode, at, bytes, synced } => {
                self.write(*inode, *at, bytes, *synced);
            }
            Operation::Length { inode, bytes } => self.change(*inode, Change::Length(*bytes)),
            Operation::Sync { inode } => self.sync(*inode),
            Operation::Rename { from, to } => self.rename(event.thread, from, to),
            Operation::Remove { path } => self.remove(path),
            Operation::Folder { path, inode } => self.make_folder(path, *inode),
            Operation::Output(_) => self.rely_on_names(Some(event.thread)),
        }
    }

    /// Returns the renames that were not made durable before the program ended.
    pub(crate) fn end(mut self) -> Vec<Fault> {
        self.rely_on_names(None);
        self.faults
    }

    /// Returns the renames so far that were not made durable before an output.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// Returns the files after a power failure at this point. `keep` decides for each unsynced block of a
    /// write, each length and each change of names, in order, whether it is on the disk.
    pub fn tree(&self, keep: &mut dyn FnMut() -> bool) -> Tree {
        let mut tree = Tree::default();
        self.collect(ROOT, Path::new(""), keep, &mut tree);
        tree
    }

    fn collect(&self, id: usize, path: &Path, keep: &mut dyn FnMut() -> bool, tree: &mut Tree) {
        match &self.nodes[id] {
            Node::File { synced, pending } => {
                let mut bytes = synced.clone();
                for change in pending {
                    if matches!(change, Change::SyncedWrite { .. }) || keep() {
                        change.apply(&mut bytes);
                    }
                }
                tree.entries.insert(path.to_owned(), Some(bytes));
            }
            Node::Folder { synced, pending, .. } => {
                if id != ROOT {
                    tree.entries.insert(path.to_owned(), None);
                }
                let mut names = synced.clone();
                for change in pending {
                    if keep() {
                        change_names(&mut names, change);
                    }
                }
                for (name, id) in names {
                    self.collect(id, &path.join(name), keep, tree);
                }
            }
        }
    }

    fn open(&mut self, path: &Path, inode: u64, truncated: bool) {
        let Some((folder, name)) = self.locate(path) else { return };
        if self.child(folder, &name).is_none() {
            let id = self.add(inode, Node::file(Vec::new()));
            self.rename_in(folder, vec![(name, Some(id))]);
        } else if truncated {
            self.change(inode, Change::Length(0));
        }
    }

    fn write(&mut self, inode: u64, at: u64, bytes: &[u8], synced: bool) {
        let mut rest = bytes;
        let mut at = at;
        while !rest.is_empty() {
            let space = usize::try_from(PIECE_BYTES - at % PIECE_BYTES).unwrap_or(rest.len());
            let (piece, after) = rest.split_at(space.min(rest.len()));
            let bytes = piece.to_vec();
            let change = if synced {
                Change::SyncedWrite { at, bytes }
            } else {
                Change::Write { at, bytes }
            };
            if synced && let Some(Node::File { synced, .. }) = self.node(inode) {
                change.apply(synced);
            }
            self.change(inode, change);
            (at, rest) = (at + piece.len() as u64, after);
        }
    }

    fn change(&mut self, inode: u64, change: Change) {
        if let Some(Node::File { pending, .. }) = self.node(inode) {
            pending.push(change);
        }
    }

    fn sync(&mut self, inode: u64) {
        let id = self.inodes.get(&inode).copied();
        match self.node(inode) {
            Some(Node::File { synced, pending }) => {
                for change in pending.drain(..) {
                    change.apply(synced);
                }
            }
            Some(Node::Folder { now, synced, pending }) => {
                synced.clone_from(now);
                pending.clear();
            }
            None => {}
        }
        self.renamed.retain(|renamed| Some(renamed.folder) != id);
    }

    fn rename(&mut self, thread: u64, from: &Path, to: &Path) {
        let (Some((old_folder, old)), Some((folder, name))) = (self.locate(from), self.locate(to))
        else {
            return;
        };
        let Some(id) = self.child(old_folder, &old) else { return };
        if let Some(unsynced) = self.unsynced(id, to) {
            self.faults.push(Fault::ContentNotSynced { path: to.to_owned(), unsynced });
        }
        self.forget(folder, &name);
        if folder == old_folder {
            self.rename_in(folder, vec![(old, None), (name, Some(id))]);
        } else {
            self.rename_in(old_folder, vec![(old, None)]);
            self.rename_in(folder, vec![(name, Some(id))]);
        }
        self.renamed.push(Renamed { thread, folder, path: to.to_owned() });
    }

    fn remove(&mut self, path: &Path) {
        let Some((folder, name)) = self.locate(path) else { return };
        self.forget(folder, &name);
        self.rename_in(folder, vec![(name, None)]);
    }

    fn make_folder(&mut self, path: &Path, inode: u64) {
        let Some((folder, name)) = self.locate(path) else { return };
        let id = self.add(inode, Node::folder());
        self.rename_in(folder, vec![(name, Some(id))]);
    }

    /// Turns unsynced names into faults after `thread` has written output or, if `None`, after all threads have ended.
    fn rely_on_names(&mut self, thread: Option<u64>) {
        let relied_on = |renamed: &Renamed| thread.is_none_or(|thread| renamed.thread == thread);
        for renamed in self.renamed.extract_if(.., |renamed| relied_on(renamed)) {
            self.faults.push(Fault::NameNotSynced { path: renamed.path });
        }
    }

    /// Returns the first unsynced path at or below a file or folder.
    fn unsynced(&self, id: usize, path: &Path) -> Option<PathBuf> {
        match &self.nodes[id] {
            Node::File { pending, .. } => (!pending.is_empty()).then(|| path.to_owned()),
            Node::Folder { pending, .. } if !pending.is_empty() => Some(path.to_owned()),
            Node::Folder { now, .. } => {
                now.iter().find_map(|(name, id)| self.unsynced(*id, &path.join(name)))
            }
        }
    }

    fn add(&mut self, inode: u64, node: Node) -> usize {
        self.nodes.push(node);
        self.inodes.insert(inode, self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    fn node(&mut self, inode: u64) -> Option<&mut Node> {
        self.inodes.get(&inode).map(|id| &mut self.nodes[*id])
    }

    /// Forgets the inode of a name that is about to be removed, because it may be reused for another file.
    fn forget(&mut self, folder: usize, name: &OsStr) {
        let removed = self.child(folder, name);
        self.inodes.retain(|_, id| Some(*id) != removed);
    }

    fn child(&self, folder: usize, name: &OsStr) -> Option<usize> {
        match &self.nodes[folder] {
            Node::Folder { now, .. } => now.get(name).copied(),
            Node::File { .. } => None,
        }
    }

    fn rename_in(&mut self, folder: usize, names: Names) {
        if let Node::Folder { now, pending, .. } = &mut self.nodes[folder] {
            change_names(now, &names);
            pending.push(names);
        }
    }

    /// Returns the folder that contains a path, and the name in that folder; `None` for a path outside the root.
    fn locate(&self, path: &Path) -> Option<(usize, OsString)> {
        let below = path.strip_prefix(&self.root).ok()?;
        let mut names = below.components().filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            _ => None,
        });
        let last = names.next_back()?;
        let folder = names.try_fold(ROOT, |folder, name| self.child(folder, &name))?;
        Some((folder, last))
    }
}

impl Node {
    const fn file(bytes: Vec<u8>) -> Self {
        Self::File { synced: bytes, pending: Vec::new() }
    }

    const fn folder() -> Self {
        Self::Folder { now: BTreeMap::new(), synced: BTreeMap::new(), pending: Vec::new() }
    }
}

impl Change {
    fn apply(&self, file: &mut Vec<u8>) {
        let index = |at: u64| usize::try_from(at).expect("a file of a test fits into memory");
        match self {
            Self::Write { at, bytes } | Self::SyncedWrite { at, bytes } => {
                let (start, end) = (index(*at), index(*at) + bytes.len());
                if file.len() < end {
                    file.resize(end, 0);
                }
                file[start..end].copy_from_slice(bytes);
            }
            Self::Length(bytes) => file.resize(index(*bytes), 0),
        }
    }
}

fn change_names(names: &mut BTreeMap<OsString, usize>, change: &Names) {
    for (name, id) in change {
        match id {
            Some(id) => names.insert(name.clone(), *id),
            None => names.remove(name),
        };
    }
}
