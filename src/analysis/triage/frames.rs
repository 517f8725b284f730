//! Names of kernels and places in the code, as tables show them, and which of several Python frames tells most
//! (`patterns/frames.json`).

use serde::Deserialize;

/// A kernel's name without what differs from run to run: blanks in a row are one, addresses are `0xADDR`, and a `void`
/// kernel loses its argument list; template arguments stay.
pub fn canonical(raw: &str) -> String {
    let blanks_joined = raw.split_whitespace().collect::<Vec<_>>().join(" ");
    without_arguments(&without_addresses(&blanks_joined)).to_owned()
}

/// An address begins a word: the tile `MT320x256x64` holds none.
fn without_addresses(name: &str) -> String {
    let mut plain = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, after)) = rest.split_once("0x") {
        let begins_word = !before.ends_with(|last: char| last.is_ascii_alphanumeric());
        let digits = after.len() - after.trim_start_matches(|digit: char| digit.is_ascii_hexdigit()).len();
        plain.push_str(before);
        plain.push_str("0x");
        rest = after;
        if begins_word && digits > 0 {
            plain.push_str("ADDR");
            rest = after.get(digits..).unwrap_or_default();
        }
    }
    plain + rest
}

fn without_arguments(name: &str) -> &str {
    if !name.starts_with("void ") || !name.ends_with(')') {
        return name;
    }
    let mut depth = 0_usize;
    for (at, byte) in name.bytes().enumerate().rev() {
        match byte {
            b')' => depth += 1,
            b'(' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return name.get(..at).unwrap_or(name).trim_end();
        }
    }
    name
}

/// A Python frame's name, taken apart: `PATH(LINE): FUNCTION`.
#[derive(Debug, Clone, Copy)]
struct Frame<'a> {
    path: &'a str,
    line: &'a str,
    function: &'a str,
}

impl<'a> Frame<'a> {
    /// `None` for what is no place in a file: built-in methods, modules.
    fn parse(raw: &'a str) -> Option<Self> {
        raw.match_indices('(').find_map(|(at, _)| {
            let (line, function) = raw.get(at + 1..)?.split_once("): ")?;
            let is_line = !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
            is_line.then_some(Self { path: raw.get(..at)?, line, function })
        })
    }
}

/// The words that frames are judged by.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FrameRules {
    /// What the file is.
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
    /// The call with which a graph's capture begins.
    pub(crate) capture_begins: String,
    /// The call with which it ends.
    pub(crate) capture_ends: String,
    /// Names that share fewer letters and digits are not called similar.
    pub(crate) least_similar_letters: usize,
    /// Kernels that other names stand for in a mapping trace.
    pub(crate) aliases: Vec<Alias>,
}

/// The package of a serving framework.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Root {
    /// In lower case, with the `/` at its end.
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

/// Kernels under another name: letters and digits alone, in lower case.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Alias {
    /// The kernel's name holds this.
    pub(crate) when: String,
    /// The other's name or place holds one of these.
    pub(crate) tokens: Vec<String>,
}

impl FrameRules {
    /// The project's own.
    #[allow(clippy::expect_used, reason = "data of the program; a test reads it")]
    pub(crate) fn embedded() -> Self {
        serde_json::from_str(include_str!("../../../patterns/frames.json")).expect("patterns/frames.json parses")
    }

    /// The place that a frame names: `python/sglang/srt/models/qwen3.py:310 forward`; the name itself where it is none.
    pub(crate) fn location(&self, raw: &str) -> String {
        match Frame::parse(raw) {
            Some(frame) => format!("{}:{} {}", self.rooted(frame.path), frame.line, frame.function),
            None => raw.split_whitespace().collect::<Vec<_>>().join(" "),
        }
    }

    /// The path from the root of its package.
    ///
    /// An installed package's root is known, and a relative path begins with one. Of a checkout's folders the last that
    /// is named like a package is it: `vllm` in `/home/vllm/code/python/sglang/x.py` is a person.
    fn rooted(&self, path: &str) -> String {
        let path = path.replace('\\', "/");
        let folders = path.to_ascii_lowercase();
        let end_of = |folder: &String| last_folder(&folders, folder).map(|at| at + folder.len());
        let installed = self.package_folders.iter().filter_map(end_of).max();
        let from = installed.unwrap_or(0);
        let is_absolute = path.starts_with('/') || path.get(1..3) == Some(":/");
        let found = match folders.get(from..) {
            Some(below) if installed.is_some() || !is_absolute => self.leading_root(below),
            _ => self.last_root(&folders),
        };
        match found {
            Some((root, end)) => root.shown.clone() + path.get(from + end..).unwrap_or_default(),
            None => path.get(from..).unwrap_or_default().trim_start_matches('/').to_owned(),
        }
    }

    /// The root that a path begins with and where it ends; of a checkout named like its package the package.
    fn leading_root(&self, path: &str) -> Option<(&Root, usize)> {
        let (mut found, mut end) = (None, 0);
        while let Some(root) = self.roots.iter().find(|root| starts_with(path, end, &root.path)) {
            end += root.path.len();
            found = Some((root, end));
        }
        let nested = || self.last_root(path).filter(|(root, _)| root.path.matches('/').count() > 1);
        found.or_else(nested)
    }

    /// The last root on a path and where it ends; of two that end there the longer.
    fn last_root(&self, path: &str) -> Option<(&Root, usize)> {
        let ends = self.roots.iter().filter_map(|root| Some((root, last_folder(path, &root.path)? + root.path.len())));
        ends.max_by_key(|(root, end)| (*end, root.path.len()))
    }

    /// How much a frame tells: the highest of those that are active names the site.
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

    /// How well a place explains a kernel to a reader; it ranks sites and the frames of a stack.
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

    /// Is it in the code of a serving framework?
    pub(crate) fn is_framework(&self, location: &str) -> bool {
        self.root(location).is_some()
    }

    /// Is it a place that everything passes through?
    pub(crate) fn is_low_signal(&self, location: &str) -> bool {
        let location = location.to_ascii_lowercase();
        self.low_signal.iter().any(|token| location.contains(token.as_str()))
    }

    /// The place to show for a site: its own where that is the framework's code, else the best of its stack.
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

fn starts_with(path: &str, at: usize, folder: &str) -> bool {
    path.get(at..).is_some_and(|path| path.starts_with(folder))
}

/// Where the last folder of this name stands.
fn last_folder(path: &str, folder: &str) -> Option<usize> {
    let is_whole = |at: &usize| *at == 0 || path.as_bytes().get(*at - 1) == Some(&b'/');
    path.rmatch_indices(folder).map(|(at, _)| at).find(is_whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn names_lose_what_differs_from_run_to_run_and_nothing_else() {
        for (raw, wanted) in [
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
            assert_eq!(canonical(raw), wanted, "{raw}");
        }
    }

    #[test]
    fn a_path_is_shown_from_its_package_whatever_the_folders_around_are_called() {
        let rules = FrameRules::embedded();
        for (raw, wanted) in [
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
            assert_eq!(rules.location(raw), wanted, "{raw}");
        }
    }

    #[test]
    fn no_persons_machine_is_special() {
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
    fn a_stack_shows_the_innermost_of_its_best_frames() {
        let rules = FrameRules::embedded();
        let linear = "torch/nn/modules/linear.py:125 forward";
        let stack = ["transformers/a.py:1 outer", "transformers/a.py:2 inner", linear];
        assert_eq!(rules.display(linear, &stack), "transformers/a.py:2 inner");
        assert_eq!(rules.display("vllm/b.py:3 f", &stack), "vllm/b.py:3 f");
        assert_eq!(rules.display("vllm/b.py:3 __call__", &["vllm/b.py:3 __call__", "vllm/c.py:4 g"]), "vllm/c.py:4 g");
        assert_eq!(rules.display("", &[]), "");
    }

    /// The original's answers, all but its treatment of one person's folders, which none of these cases needs.
    #[test]
    fn names_places_and_priorities_are_those_of_the_tool_we_replace() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/spec/data/golden/triage_unit_cases.expected.json");
        let Ok(text) = std::fs::read_to_string(path) else {
            println!("skipped: there is no file {path}");
            return;
        };
        let (cases, rules): (Value, _) = (serde_json::from_str(&text).unwrap(), FrameRules::embedded());
        for case in cases["names"].as_array().unwrap() {
            assert_eq!(canonical(case["in"].as_str().unwrap()), case["canonical"].as_str().unwrap());
        }
        for case in cases["locations"].as_array().unwrap() {
            let raw = case["in"].as_str().unwrap();
            let location = rules.location(raw);
            assert_eq!(location, case["normalized"].as_str().unwrap(), "{raw}");
            assert_eq!(rules.is_low_signal(&location), case["low_signal"].as_bool().unwrap(), "{raw}");
            let priorities = [rules.frame_priority(raw, &location), rules.source_priority(&location)].map(i64::from);
            let wanted = ["frame_priority", "source_priority"].map(|key| case[key].as_i64().unwrap());
            assert_eq!(priorities, wanted, "{raw}");
        }
    }
}
