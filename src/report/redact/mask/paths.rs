//! Paths in the texts of a trace: what is inside a public package stays, and of other paths the extension. A path still looks like
//! one, so that a redacted report of the copy has the same placeholders. Linear in the text.

use super::super::Redaction;
use super::super::rules::PATTERNS;
use super::super::scanner::{Boundaries, is_absolute, is_in_package, part_in_package, replace_matches};
use super::super::vocabulary::is_public;
use super::{BEGINNING, Kept, Mask};

/// A path may follow any sign, but not the brackets of a scope, as in `jit(main)/while/body`.
const PATHS: Boundaries = Boundaries {
    before: |letter| letter.is_alphanumeric() || matches!(letter, ')' | ']' | '}'),
    after: char::is_alphanumeric,
};
/// The longest extension.
const MAX_EXTENSION: usize = 12;

impl Mask {
    /// The text with marks for private paths.
    pub(super) fn without_paths(&mut self, text: &str, kept: &mut Kept) -> String {
        if !text.contains(['/', '\\', '.']) {
            return text.to_owned();
        }
        replace_matches(&PATTERNS.paths, PATHS, text, &mut |found| {
            // The line and the function follow the path.
            let (path, rest) = found.split_at(found.find(".py(").map_or(found.len(), |at| at + ".py".len()));
            // A root in a name: `aten::/home/x.py`. That of a drive is at the beginning.
            let root = path.rfind(":/").map(|at| at + 1).filter(|at| *at > "C:".len());
            let (before, path) = path.split_at(root.unwrap_or(0));
            if let Some(inside) = part_in_package(path) {
                let folder = self.path(&kept.expanded(path.strip_suffix(inside)?));
                return Some(format!("{before}{}{inside}{rest}", kept.mark(folder)?));
            }
            let is_public = is_in_package(path) || (is_public(path) && !PATTERNS.home.is_match(path));
            if !is_absolute(path) && is_public {
                return None;
            }
            let path = self.path(&kept.expanded(path));
            Some(format!("{before}{}{rest}", kept.mark(path)?))
        })
    }

    /// The code of a path: its root, the user of a home folder, and the extension stay apart.
    fn path(&mut self, path: &str) -> String {
        let sign = if path.contains('\\') { "\\" } else { "/" };
        let has_drive = path.get(1..2) == Some(":");
        let home = PATTERNS.home.captures(path).filter(|home| {
            let start = home.get(0).map_or(0, |home| home.start());
            start == 0 || (start == 2 && has_drive)
        });
        let user = home.and_then(|home| home.get(1));
        let (root, rest) = match user {
            Some(user) => {
                let folder = path.get(..user.start()).unwrap_or_default();
                (format!("{folder}{}{sign}", self.user(user.as_str())), path.get(user.end()..).unwrap_or_default())
            }
            None if has_drive => (path.get(..3).unwrap_or_default().to_owned(), path),
            None if is_absolute(path) => {
                let before = if sign == "/" { sign } else { "\\\\" };
                (format!("{before}{}{sign}", String::from_iter(BEGINNING)), path)
            }
            None => (String::new(), path),
        };
        let parts = rest.trim_matches(['/', '\\']);
        if parts.is_empty() {
            return root;
        }
        let end = if rest.ends_with(['/', '\\']) { sign } else { "" };
        let name = parts.rsplit(['/', '\\']).next().filter(|_| end.is_empty());
        let extension = name.and_then(|name| name.rsplit_once('.')).map(|(_, extension)| extension);
        let extension = extension.filter(|extension| extension.len() <= MAX_EXTENSION && is_public(extension));
        format!(
            "{root}{}{}{end}",
            self.code(Redaction::Files, path),
            extension.map_or(String::new(), |extension| format!(".{extension}"))
        )
    }

    fn user(&mut self, user: &str) -> String {
        if is_public(user) { self.code(Redaction::Machines, user) } else { self.tokens(user) }
    }
}
