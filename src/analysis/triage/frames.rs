//! Canonical kernel names, source locations as tables show them, and priorities that select the most informative of
//! several Python frames. The rules are in `patterns/frames.json`. Each function is linear in the length of the name.

use crate::json::embedded;
use serde::Deserialize;

/// Returns a kernel's name without the parts that differ from run to run. Consecutive blanks become one, addresses become
/// `0xADDR`, and a `void` kernel loses its argument list. Template arguments remain.
pub fn canonical(raw: &str) -> String {
    let blanks_joined = raw.split_whitespace().collect::<Vec<_>>().join(" ");
    without_arguments(&without_addresses(&blanks_joined)).to_owned()
}

/// Only `0x` at the beginning of a word starts an address: the tile `MT320x256x64` contains none.
fn without_addresses(name: &str) -> String {
    let mut result = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, after)) = rest.split_once("0x") {
        let begins_word = !before.ends_with(|last: char| last.is_ascii_alphanumeric());
        let digits = after.len() - after.trim_start_matches(|digit: char| digit.is_ascii_hexdigit()).len();
        result.push_str(before);
        result.push_str("0x");
        rest = after;
        if begins_word && digits > 0 {
            result.push_str("ADDR");
            rest = after.get(digits..).unwrap_or_default();
        }
    }
    result + rest
}

fn without_arguments(name: &str) -> &str {
    if !name.starts_with("void ") || !name.ends_with(')') {
        return name;
    }
    let mut depth = 0_usize;
    for (index, byte) in name.bytes().enumerate().rev() {
        match byte {
            b')' => depth += 1,
            b'(' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return name.get(..index).unwrap_or(name).trim_end();
        }
    }
    name
}

/// The parsed name of a Python frame: `PATH(LINE): FUNCTION`.
#[derive(Debug, Clone, Copy)]
struct Frame<'a> {
    path: &'a str,
    line: &'a str,
    function: &'a str,
}

impl<'a> Frame<'a> {
    /// Returns `None` for frames without a file, such as built-in methods and modules.
    fn parse(raw: &'a str) -> Option<Self> {
        raw.match_indices('(').find_map(|(paren, _)| {
            let (line, function) = raw.get(paren + 1..)?.split_once("): ")?;
            let is_line = !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
            is_line.then_some(Self { path: raw.get(..paren)?, line, function })
        })
    }
}

/// The content of `patterns/frames.json`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FrameRules {
    #[allow(dead_code, reason = "for readers of the file")]
    about: String,
    package_folders: Vec<String>,
    roots: Vec<Root>,
    other_packages: Vec<Package>,
    low_signal_penalty: i32,
    noise_prefixes: Vec<String>,
    noise_priority: i32,
    low_level_prefixes: Vec<String>,
    low_signal: Vec<String>,
    installed_frame_priority: i32,
    python_frame_priority: i32,
    python_folder_source_priority: i32,
    python_source_priority: i32,
    torch_source_priority: i32,
    unknown_source_priority: i32,
    /// Part of the name of the call that begins a graph capture.
    pub(crate) capture_begins: String,
    /// Part of the name of the call that ends a graph capture.
    pub(crate) capture_ends: String,
    /// Names with fewer letters and digits in common are not similar.
    pub(crate) min_similar_letters: usize,
    /// Kernels that have another name in a mapping trace.
    pub(crate) aliases: Vec<Alias>,
}

/// The root folder of a serving framework's package.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Root {
    /// In lower case, with a trailing `/`.
    path: String,
    shown: String,
    priority: i32,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Package {
    path: String,
    frame_priority: i32,
}

/// A kernel with another name in mapping traces. All words are in lower case and contain letters and digits only.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Alias {
    /// The rule applies to kernels whose name contains this word.
    pub(crate) when: String,
    /// The name, location or CPU op of the corresponding kernel contains one of these words.
    pub(crate) tokens: Vec<String>,
}

impl FrameRules {
    pub(crate) fn embedded() -> Self {
        embedded(serde_json::from_str(include_str!("../../../patterns/frames.json")))
    }

    /// The source location of a frame: `python/sglang/srt/models/qwen3.py:310 forward`. A frame without a file keeps its name.
    pub(crate) fn location(&self, raw: &str) -> String {
        match Frame::parse(raw) {
            Some(frame) => format!("{}:{} {}", self.rooted(frame.path), frame.line, frame.function),
            None => raw.split_whitespace().collect::<Vec<_>>().join(" "),
        }
    }

    /// The path relative to the folder that contains its package.
    ///
    /// Paths of installed packages start after `site-packages/`, and a relative path starts with its package. In an
    /// absolute path of a checkout the last folder with a package's name is the root: the `vllm` of
    /// `/home/vllm/code/python/sglang/x.py` is a user name.
    fn rooted(&self, path: &str) -> String {
        let path = path.replace('\\', "/");
        let folders = path.to_ascii_lowercase();
        let end_of = |folder: &String| last_folder(&folders, folder).map(|start| start + folder.len());
        let installed = self.package_folders.iter().filter_map(end_of).max();
        let base = installed.unwrap_or(0);
        let is_absolute = path.starts_with('/') || path.get(1..3) == Some(":/");
        let found = match folders.get(base..) {
            Some(below) if installed.is_some() || !is_absolute => self.leading_root(below),
            _ => self.last_root(&folders),
        };
        match found {
            Some((root, end)) => root.shown.clone() + path.get(base + end..).unwrap_or_default(),
            None => path.get(base..).unwrap_or_default().trim_start_matches('/').to_owned(),
        }
    }

    /// The root at the beginning of a path and the offset of its end. If roots follow each other, the last is returned:
    /// `vllm/vllm/x.py` is in a checkout named like its package. A path that starts with no root may still contain one of
    /// two folders, such as `python/sglang/`.
    fn leading_root(&self, path: &str) -> Option<(&Root, usize)> {
        let (mut found, mut end) = (None, 0);
        while let Some(root) = self.roots.iter().find(|root| starts_with(path, end, &root.path)) {
            end += root.path.len();
            found = Some((root, end));
        }
        let nested = || self.last_root(path).filter(|(root, _)| root.path.matches('/').count() > 1);
        found.or_else(nested)
    }

    /// The last root in a path and the offset of its end. If two roots end there, the longer one is returned.
    fn last_root(&self, path: &str) -> Option<(&Root, usize)> {
        let ends = self.roots.iter().filter_map(|root| Some((root, last_folder(path, &root.path)? + root.path.len())));
        ends.max_by_key(|(root, end)| (*end, root.path.len()))
    }

    /// The priority of a frame. The frame of a stack with the highest priority is the call site.
    pub(crate) fn frame_priority(&self, raw: &str, location: &str) -> i32 {
        let rooted = Frame::parse(raw).map(|frame| format!("{}({}", self.rooted(frame.path), frame.line));
        let is_noise = |prefix: &String| {
            raw.starts_with(prefix.as_str())
                || rooted.as_ref().is_some_and(|rooted| rooted.starts_with(prefix.as_str()))
        };
        let package = || self.other_packages.iter().find(|package| location.starts_with(&package.path));
        let is_low_level = self.low_level_prefixes.iter().any(|prefix| location.starts_with(prefix.as_str()));
        if self.noise_prefixes.iter().any(is_noise) {
            self.noise_priority
        } else if let Some(root) = self.root(location) {
            root.priority - self.penalty(location)
        } else if let Some(package) = package() {
            package.frame_priority - self.penalty(location)
        } else if is_low_level || !location.contains(".py:") {
            0
        } else if raw.contains("site-packages") || location.starts_with("torch/") {
            self.installed_frame_priority
        } else {
            self.python_frame_priority
        }
    }

    /// The priority of a location for display. It ranks call sites, and the frames of a stack.
    pub(crate) fn source_priority(&self, location: &str) -> i32 {
        if location.is_empty() {
            self.unknown_source_priority
        } else if let Some(root) = self.root(location) {
            root.priority - self.penalty(location)
        } else if location.starts_with("python/") {
            self.python_folder_source_priority - self.penalty(location)
        } else if location.starts_with("torch/") || location.contains("/torch/") {
            self.torch_source_priority
        } else if location.contains(".py:") {
            self.python_source_priority - self.penalty(location)
        } else {
            0
        }
    }

    /// Whether a location is in the code of a serving framework.
    pub(crate) fn is_framework(&self, location: &str) -> bool {
        self.root(location).is_some()
    }

    /// Whether a location says little because most kernels pass through it.
    pub(crate) fn is_low_signal(&self, location: &str) -> bool {
        let location = location.to_ascii_lowercase();
        self.low_signal.iter().any(|token| location.contains(token.as_str()))
    }

    /// The location to display for a call site: its own if that is framework code, otherwise the one of its stack with the
    /// highest [`Self::source_priority`].
    pub(crate) fn display<'a>(&self, location: &'a str, stack: &[&'a str]) -> &'a str {
        if self.is_framework(location) && !self.is_low_signal(location) {
            return location;
        }
        let ranked = stack.iter().map(|&frame| (self.source_priority(frame), frame));
        let best = ranked.filter(|(priority, _)| *priority > 0).max_by_key(|(priority, _)| *priority);
        best.map_or(location, |(_, frame)| frame)
    }

    fn root(&self, location: &str) -> Option<&Root> {
        self.roots.iter().find(|root| location.starts_with(&root.shown))
    }

    fn penalty(&self, location: &str) -> i32 {
        if self.is_low_signal(location) { self.low_signal_penalty } else { 0 }
    }
}

fn starts_with(path: &str, offset: usize, folder: &str) -> bool {
    path.get(offset..).is_some_and(|path| path.starts_with(folder))
}

/// The offset of the last occurrence of a folder.
fn last_folder(path: &str, folder: &str) -> Option<usize> {
    let starts_folder = |offset: &usize| *offset == 0 || path.as_bytes().get(*offset - 1) == Some(&b'/');
    path.rmatch_indices(folder).map(|(offset, _)| offset).find(starts_folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::read_json;

    #[test]
    fn canonical_names_have_no_addresses_no_extra_blanks_and_no_arguments() {
        for (raw, expected) in [
            ("0x7f00 kernel", "0xADDR kernel"),
            ("at 0xdeadBEEF, 0x1)", "at 0xADDR, 0xADDR)"),
            ("Cijk_MT320x256x64_0x", "Cijk_MT320x256x64_0x"),
            ("void foo<int>(int, int)", "void foo<int>"),
            (
                "void (anonymous namespace)::copy_blocks_kernel(int, int)",
                "void (anonymous namespace)::copy_blocks_kernel",
            ),
            ("  a   b  ", "a b"),
            ("void k(f(int))(g)", "void k(f(int))"),
            ("void broken)", "void broken)"),
            ("int foo(int)", "int foo(int)"),
            ("Memset (Device)", "Memset (Device)"),
            ("", ""),
        ] {
            assert_eq!(canonical(raw), expected, "{raw}");
        }
    }

    #[test]
    fn a_location_starts_at_its_package_even_if_other_folders_have_the_same_name() {
        let rules = FrameRules::embedded();
        for (raw, expected) in [
            ("/opt/vllm/site-packages/torch/x.py(1): f", "torch/x.py:1 f"),
            ("/home/vllm/code/python/sglang/x.py(2): f", "python/sglang/x.py:2 f"),
            ("/workspace/vllm/vllm/v1/x.py(3): f", "vllm/v1/x.py:3 f"),
            ("/srv/sglang/lib/python3.12/site-packages/vllm/v1/x.py(4): f", "vllm/v1/x.py:4 f"),
            ("/venv/lib/python3.12/dist-packages/sglang/srt/x.py(5): f", "python/sglang/srt/x.py:5 f"),
            ("/venv/site-packages/lmcache/integration/vllm/x.py(6): f", "lmcache/integration/vllm/x.py:6 f"),
            ("lmcache/integration/vllm/x.py(7): f", "lmcache/integration/vllm/x.py:7 f"),
            ("sglang/python/sglang/srt/x.py(8): f", "python/sglang/srt/x.py:8 f"),
            ("/x/tokenspeed/python/tokenspeed/x.py(9): f", "python/tokenspeed/x.py:9 f"),
            ("/app/TensorRT-LLM/examples/x.py(10): f", "tensorrt_llm/examples/x.py:10 f"),
            ("/app/myvllm/x.py(11): f", "app/myvllm/x.py:11 f"),
            ("/odd (2)/vllm/x.py(12): f(3): g", "vllm/x.py:12 f(3): g"),
            ("C:\\x\\vllm\\a.py(3): h", "vllm/a.py:3 h"),
            ("<built-in  method mm>", "<built-in method mm>"),
        ] {
            assert_eq!(rules.location(raw), expected, "{raw}");
        }
    }

    #[test]
    fn priorities_do_not_depend_on_the_folder_above_the_package() {
        let rules = FrameRules::embedded();
        let priority = |raw: &str| rules.frame_priority(raw, &rules.location(raw));
        for folder in ["/data/", "/Users/", "/home/", "/mnt/x/"] {
            assert_eq!(priority(&format!("{folder}me/script.py(1): f")), priority("script.py(1): f"), "{folder}");
        }
        assert_eq!(priority("/venv/site-packages/torch/utils/_contextlib.py(117): decorate_context"), -20);
        assert!(priority("vllm/a.py(1): __call__") < priority("vllm/a.py(1): forward"));
        assert!(priority("vllm/a.py(1): __call__") > priority("torch/a.py(1): forward"));
    }

    #[test]
    fn the_displayed_location_is_the_innermost_frame_of_the_highest_priority() {
        let rules = FrameRules::embedded();
        let linear = "torch/nn/modules/linear.py:125 forward";
        let stack = ["transformers/a.py:1 outer", "transformers/a.py:2 inner", linear];
        assert_eq!(rules.display(linear, &stack), "transformers/a.py:2 inner");
        assert_eq!(rules.display("vllm/b.py:3 f", &stack), "vllm/b.py:3 f");
        assert_eq!(rules.display("vllm/b.py:3 __call__", &["vllm/b.py:3 __call__", "vllm/c.py:4 g"]), "vllm/c.py:4 g");
        assert_eq!(rules.display("", &[]), "");
    }

    /// Compares with recorded results of the original tool. Its special cases for one user's folders do not occur in them.
    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn names_locations_and_priorities_equal_those_of_the_original_tool() {
        let (cases, rules) = (read_json("spec/data/golden/triage_unit_cases.expected.json"), FrameRules::embedded());
        let [names, locations] = ["names", "locations"].map(|key| cases[key].as_array().unwrap());
        assert!(!names.is_empty() && !locations.is_empty());
        for case in names {
            assert_eq!(canonical(case["in"].as_str().unwrap()), case["canonical"].as_str().unwrap());
        }
        for case in locations {
            let raw = case["in"].as_str().unwrap();
            let location = rules.location(raw);
            assert_eq!(location, case["normalized"].as_str().unwrap(), "{raw}");
            assert_eq!(rules.is_low_signal(&location), case["low_signal"].as_bool().unwrap(), "{raw}");
            let priorities = [rules.frame_priority(raw, &location), rules.source_priority(&location)].map(i64::from);
            let expected = ["frame_priority", "source_priority"].map(|key| case[key].as_i64().unwrap());
            assert_eq!(priorities, expected, "{raw}");
        }
    }
}
