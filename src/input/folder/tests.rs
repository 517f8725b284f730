use super::*;

/// Makes an entry with the stages that the caller defines: 0 is prefill, 1 decode.
fn entry(path: &str) -> Entry {
    let stage = match path.to_ascii_lowercase() {
        path if path.contains("extend") || path.contains("prefill") => Some(0),
        path if path.contains("decode") => Some(1),
        _ => None,
    };
    Entry { path: path.to_owned(), bytes: 1, modified: 0, stage }
}

/// A selection by path.
struct Selected<'a> {
    traces: Vec<&'a str>,
    mapping: Vec<&'a str>,
    skipped: Vec<(&'a str, String)>,
    selection: Selection,
}

fn select_with_contents<'a>(paths: &[&'a str], contents: &[(usize, Content)]) -> Selected<'a> {
    let entries: Vec<Entry> = paths.iter().map(|path| entry(path)).collect();
    let selection = select(&entries, contents);
    let path = |index: usize| paths[index];
    // Every file is used or skipped exactly once.
    let mut listed: Vec<usize> = selection.traces.iter().map(|chosen| chosen.entry).collect();
    listed.extend(&selection.mapping);
    listed.extend(selection.skipped.iter().map(|skipped| skipped.entry));
    listed.extend((0..entries.len()).filter(|index| path(*index).ends_with("server_args.json")));
    listed.sort_unstable();
    assert_eq!(listed, (0..entries.len()).collect::<Vec<_>>(), "{selection:?}");
    Selected {
        traces: selection.traces.iter().map(|chosen| path(chosen.entry)).collect(),
        mapping: selection.mapping.iter().map(|index| path(*index)).collect(),
        skipped: selection.skipped.iter().map(|skipped| (path(skipped.entry), skipped.why.clone())).collect(),
        selection,
    }
}

fn select_paths<'a>(paths: &[&'a str]) -> Selected<'a> {
    select_with_contents(paths, &[])
}

fn why<'a>(selected: &'a Selected, path: &str) -> &'a str {
    let skipped = selected.skipped.iter().find(|(skipped, _)| *skipped == path);
    skipped.map_or_else(|| panic!("{path}: {:?}", selected.skipped), |(_, why)| why)
}

#[test]
fn sglang_stages_of_the_first_rank_are_chosen_in_order() {
    let selected = select_paths(&[
        "1757000000-TP-0-DECODE.trace.json.gz",
        "1757000000-TP-1-DECODE.trace.json.gz",
        "1757000000-TP-0-EXTEND.trace.json.gz",
        "1757000000-TP-1-EXTEND.trace.json.gz",
        "1756000000-TP-0-EXTEND.trace.json.gz",
        "merged-1757000000.trace.json.gz",
        "server_args.json",
    ]);
    assert_eq!(selected.traces, ["1757000000-TP-0-EXTEND.trace.json.gz", "1757000000-TP-0-DECODE.trace.json.gz"]);
    assert!(why(&selected, "merged-1757000000.trace.json.gz").contains("merged"));
    assert!(why(&selected, "1757000000-TP-1-DECODE.trace.json.gz").contains("another rank"));
    // The newest trace of each other rank refers to the chosen trace of its stage.
    let other_ranks: Vec<_> =
        selected.selection.skipped.iter().map(|skipped| (skipped.entry, skipped.other_rank_of)).collect();
    assert_eq!(other_ranks, [(1, Some(0)), (3, Some(2)), (4, None), (5, None)]);
    assert!(why(&selected, "1756000000-TP-0-EXTEND.trace.json.gz").contains("older than 1757000000-TP-0-EXTEND"));
    assert!(selected.selection.traces.iter().all(|chosen| chosen.server_args == Some(6)));
}

#[test]
fn a_merged_file_is_chosen_if_there_is_no_other() {
    assert_eq!(select_paths(&["merged-17.trace.json.gz", "run.log"]).traces, ["merged-17.trace.json.gz"]);
}

#[test]
fn vllm_front_end_traces_tables_and_graph_captures_are_not_triaged() {
    let worker = "dp0_pp0_tp0_dcp0_ep0_rank0.1757000000000000000.pt.trace.json.gz";
    let other = "dp0_pp0_tp1_dcp0_ep1_rank1.1757000000000000000.pt.trace.json.gz";
    let capture = "capture_traces/dp0_pp0_tp0_dcp0_ep0_rank0.1756000000000000000.pt.trace.json.gz";
    let selected = select_paths(&[
        "host_42.async_llm.1757000000000000000.pt.trace.json.gz",
        other,
        worker,
        "dp0_pp0_tp0_dcp0_ep0_rank0.profiler_out.txt",
        capture,
        "capture_traces/dp0_pp0_tp1_dcp0_ep1_rank1.1756000000000000000.pt.trace.json.gz",
    ]);
    assert_eq!((selected.traces, selected.mapping), (vec![worker], vec![capture]));
    assert_eq!(selected.skipped.len(), 4);
}

#[test]
fn the_replica_with_the_lowest_ranks_is_chosen() {
    let replicas = ["dp1_pp0_tp0_rank8.17.json", "dp0_pp0_tp0_rank0.17.json", "dp0_pp0_tp1_rank1.17.json"];
    assert_eq!(select_paths(&replicas).traces, ["dp0_pp0_tp0_rank0.17.json"]);
    assert_eq!(select_paths(&["x-TP-3.json", "x-TP-10.json"]).traces, ["x-TP-3.json"]);
}

#[test]
fn traces_of_the_model_are_preferred_to_those_of_an_encoder() {
    let both = select_paths(&["enc-rank0-1758000000.trace.json", "1757000000-TP-0.trace.json.gz"]);
    assert_eq!(both.traces, ["1757000000-TP-0.trace.json.gz"]);
    assert!(why(&both, "enc-rank0-1758000000.trace.json").contains("encoder"));
    assert_eq!(select_paths(&["enc-rank0-1758000000.trace.json"]).traces.len(), 1);
}

#[test]
fn subfolders_name_stages_or_else_the_newest_one_is_chosen() {
    let stages = select_paths(&["prefill/17/a-TP-0.json", "prefill/17/server_args.json", "decode/17/a-TP-0.json"]);
    assert_eq!(stages.traces, ["prefill/17/a-TP-0.json", "decode/17/a-TP-0.json"]);
    let args: Vec<_> = stages.selection.traces.iter().map(|chosen| chosen.server_args).collect();
    assert_eq!(args, [Some(1), None]);
    let runs = select_paths(&["1757000000/a.json", "1757000009/a.json", "1757000001/b.json"]);
    assert_eq!(runs.traces, ["1757000009/a.json"]);
    assert_eq!(select_paths(&["a.json", "old/1757000009.json"]).traces, ["a.json"]);
}

#[test]
fn the_order_of_the_files_does_not_matter() {
    let paths = "1757000000-TP-0.json 1757000001-TP-0.json b.json a-rank0.json capture.json capture2.json \
                 x/merged-1757000005.json";
    let mut paths: Vec<&str> = paths.split(' ').collect();
    let expected = select_paths(&paths);
    for _ in 0..paths.len() {
        paths.rotate_left(1);
        let rotated = select_paths(&paths);
        assert_eq!((rotated.traces, rotated.mapping), (expected.traces.clone(), expected.mapping.clone()));
    }
}

#[test]
fn content_overrides_the_name() {
    let paths = ["1757000002-TP-0.json", "1757000001-TP-0.json", "my_capture-TP-0.json", "benchmark.json"];
    assert_eq!(select_paths(&paths).traces, [paths[0]]);
    let host_only = select_with_contents(&paths, &[(0, Content::HostOnly)]);
    assert!(why(&host_only, paths[0]).contains("no GPU work"));
    assert_eq!((host_only.traces, host_only.mapping), (vec![paths[1]], vec![paths[2]]));
    let work = select_with_contents(&paths, &[(2, Content::Work), (0, Content::Capture), (1, Content::NoTrace)]);
    assert_eq!((work.traces, work.mapping), (vec![paths[2]], vec![paths[0]]));
}

#[test]
fn traces_without_gpu_work_are_chosen_if_there_are_no_others() {
    let host_only = select_with_contents(&["a.json", "notes.json"], &[(0, Content::HostOnly), (1, Content::NoTrace)]);
    assert_eq!(host_only.traces, ["a.json"]);
    let capture = select_with_contents(&["a.json", "b.json"], &[(0, Content::HostOnly), (1, Content::Capture)]);
    assert_eq!((capture.traces, capture.mapping), (vec!["b.json"], Vec::new()));
    assert!(select_paths(&["capture.json"]).mapping.is_empty(), "every trace has the word in its name");
}

#[test]
fn folders_without_traces_give_reasons() {
    for paths in [&[][..], &["README.md"], &["server_args.json"], &["config.json", "x.viztracer.json"]] {
        assert!(select_paths(paths).traces.is_empty());
    }
    let mut empty = entry("a-TP-0.json");
    empty.bytes = 0;
    let selection = select(&[empty], &[]);
    assert_eq!(selection.skipped[0].why, "empty");
    // An index out of range.
    assert_eq!(select(&[], &[(7, Content::Work)]), Selection::default());
}

#[test]
fn the_log_of_a_diffusers_run_is_recognised() {
    let log = "INFO Loading\nWARNING Falling back to diffusers backend for model x\n";
    assert_eq!(diffusers_phrase(log), Some("Falling back to diffusers backend"));
    assert_eq!(diffusers_phrase("INFO Using the native backend, not diffusers\n"), None);
}

mod any_folder {
    use super::*;
    use proptest::prelude::*;

    fn name() -> impl Strategy<Value = String> {
        let words = "TP-0 TP-1 rank0 rank3 EXTEND decode merged capture async_llm capture_traces x \u{1f600}";
        let other_parts = ["", "1757000000", "1757000000.25"];
        let part = prop::sample::select(words.split(' ').chain(other_parts).collect::<Vec<_>>());
        let end = prop::sample::select(vec![".json", ".trace.json.gz", ".txt", "/server_args.json", "/a.json"]);
        let separator = prop::sample::select(vec!["-", "_", "/", "."]);
        (prop::collection::vec((part, separator), 0..5), end).prop_map(|(parts, end)| {
            parts.into_iter().map(|(part, separator)| format!("{part}{separator}")).collect::<String>() + end
        })
    }

    fn content() -> impl Strategy<Value = Content> {
        prop::sample::select(vec![Content::Work, Content::Capture, Content::HostOnly, Content::NoTrace])
    }

    proptest! {
        /// `select_with_contents` checks that every file is used or skipped once.
        #[test]
        fn every_file_is_used_or_skipped_and_their_order_does_not_matter(
            names in prop::collection::btree_set(name(), 0..8),
            known in prop::collection::vec((0_usize..8, content()), 0..6),
        ) {
            let paths: Vec<&str> = names.iter().map(String::as_str).collect();
            let mut last = Vec::new();
            for (at, content) in known {
                if at < paths.len() && !last.iter().any(|(known, _)| *known == at) {
                    last.push((at, content));
                }
            }
            let forward = select_with_contents(&paths, &last);
            let reversed: Vec<&str> = paths.iter().rev().copied().collect();
            let last: Vec<(usize, Content)> = last.into_iter().map(|(at, content)| (paths.len() - 1 - at, content)).collect();
            let backward = select_with_contents(&reversed, &last);
            prop_assert_eq!((forward.traces, forward.mapping), (backward.traces, backward.mapping));
        }
    }
}

#[test]
fn the_newest_trace_of_each_rank_is_found_quickly_among_thousands() {
    let names: Vec<String> =
        (0..6_000).map(|at| format!("{}-TP-{}-DECODE.trace.json", 1_757_000_000 + at, at % 2_000)).collect();
    let entries: Vec<Entry> = names.iter().map(|name| entry(name)).collect();
    let begin = std::time::Instant::now();
    let selection = select(&entries, &[]);
    // Parsing each name once per other name would be 36 million parses.
    assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
    let other_ranks: Vec<usize> =
        selection.skipped.iter().filter(|skipped| skipped.other_rank_of.is_some()).map(|a| a.entry).collect();
    assert_eq!(other_ranks, (4_001..6_000).collect::<Vec<_>>());
    assert_eq!(selection.traces[0].entry, 4_000);
}
