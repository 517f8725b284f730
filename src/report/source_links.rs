//! Web addresses of places in the code of serving engines: `vllm/attention/layer.py:290 forward` is a line of vLLM's repository. The
//! packages are in `patterns/source_links.json`. A trace does not name the version of its engine, so an address is one of the main
//! branch, where the line may have moved; the title of the link says so.

use crate::json::{self, embedded, from_json};
use serde::Serialize;
use std::sync::LazyLock;

#[derive(Debug)]
struct Links {
    packages: Vec<Package>,
}
from_json!(Links { packages });

#[derive(Debug)]
struct Package {
    package: String,
    title: String,
    repository: String,
    folder: String,
    branch: String,
}
from_json!(strict Package { package, title, repository, folder, branch });

static LINKS: LazyLock<Links> =
    LazyLock::new(|| embedded(json::read(include_str!(concat!(env!("OUT_DIR"), "/source_links.json")))));

/// The source of a place on the web.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceLink {
    /// The address.
    pub url: String,
    /// Which source it is, and that the line may have moved.
    pub title: String,
}

/// The source of the first Python file that a line of a code location names; `None` for a file of no known package. A path that
/// is not made of plain names gives none either.
pub fn source_link(place: &str) -> Option<SourceLink> {
    let (path, line) = place.split_whitespace().find_map(python_file)?;
    let (package, in_package) =
        LINKS.packages.iter().find_map(|package| Some((package, within(path, &package.package)?)))?;
    let Package { title, repository, folder, branch, .. } = package;
    let at = line.map_or_else(String::new, |line| format!("#L{line}"));
    let moved = if line.is_some() { ": the trace does not name the version, so the line may have moved" } else { "" };
    Some(SourceLink {
        url: format!("{repository}/blob/{branch}/{folder}{in_package}{at}"),
        title: format!("Source of {title} on its {branch} branch{moved}"),
    })
}

/// Path and line of `a/b.py:12` or `a/b.py`.
fn python_file(word: &str) -> Option<(&str, Option<u32>)> {
    let (path, line) = match word.rsplit_once(':') {
        Some((path, line)) => (path, Some(line.parse().ok()?)),
        None => (word, None),
    };
    let is_plain = |name: &str| {
        !name.is_empty()
            && !name.starts_with('.')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
    };
    (path.ends_with(".py") && path.trim_start_matches('/').split('/').all(is_plain)).then_some((path, line))
}

/// The path from the folder of a package on: the innermost one, because a checkout may have the same name.
fn within<'a>(path: &'a str, package: &str) -> Option<&'a str> {
    let starts = path.match_indices(package).map(|(at, _)| at);
    let is_folder = |at: &usize| {
        let before = path.get(..*at).is_some_and(|before| before.is_empty() || before.ends_with('/'));
        before && path.get(at + package.len()..).is_some_and(|rest| rest.starts_with('/'))
    };
    starts.filter(is_folder).last().and_then(|at| path.get(at..))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(place: &str) -> Option<String> {
        source_link(place).map(|link| link.url)
    }

    #[test]
    fn a_line_of_an_engine_leads_to_its_repository() {
        let sglang = "https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/models/qwen3.py#L310";
        for place in [
            "python/sglang/srt/models/qwen3.py:310 forward (site share 70%)",
            "/sgl-workspace/sglang/python/sglang/srt/models/qwen3.py:310",
            "forward @ python/sglang/srt/models/qwen3.py:310",
        ] {
            assert_eq!(url(place).as_deref(), Some(sglang), "{place}");
        }
        let vllm = source_link("vllm/attention/layer.py:290 forward").expect("a link");
        assert_eq!(vllm.url, "https://github.com/vllm-project/vllm/blob/main/vllm/attention/layer.py#L290");
        assert!(vllm.title.contains("may have moved"), "{}", vllm.title);
        let whole_file = source_link("flashinfer/fused_moe/core.py").expect("a link");
        assert!(whole_file.url.ends_with("/flashinfer/fused_moe/core.py") && !whole_file.title.contains("line"));
        assert_eq!(
            url("transformers/models/qwen2/modeling_qwen2.py:218 forward").as_deref(),
            Some(
                "https://github.com/huggingface/transformers/blob/main/src/transformers/models/qwen2/modeling_qwen2.py#L218"
            )
        );
    }

    #[test]
    fn other_code_has_no_link() {
        for place in [
            "unresolved (site share 30%)",
            "my_server/vllm_plugin.py:3 run",
            "server.py:12 main",
            "vllm/csrc/attention.cu:9",
            "vllm.py:1 f",
            "/vllm/../../etc/x.py:1",
            "vllm/a b.py:1",
            "vllm/<script>.py:1",
            "vllm/x.py:-1",
            "",
        ] {
            // `a b.py:1` is the file `b.py` of no package.
            assert_eq!(url(place), None, "{place}");
        }
    }
}
