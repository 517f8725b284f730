use super::*;

/// Stages as the caller numbers them: prefill, decode.
fn entry(path: &str) -> Entry {
    let stage = match path.to_ascii_lowercase() {
        path if path.contains("extend") || path.contains("prefill") => Some(0),
        path if path.contains("decode") => Some(1),
        _ => None,
    };
    Entry { path: path.to_owned(), bytes: 1, modified: 0, stage }
}

struct Chose {
    traces: Vec<String>,
    mapping: Vec<String>,
    aside: Vec<(String, String)>,
    selection: Selection,
}

fn chose_knowing(paths: &[&str], known: &[(usize, Content)]) -> Chose {
    let entries: Vec<Entry> = paths.iter().map(|path| entry(path)).collect();
    let selection = select(&entries, known);
    let path = |at: usize| entries[at].path.clone();
    // Every file is accounted for, once.
    let mut seen: Vec<usize> = selection.traces.iter().map(|chosen| chosen.entry).collect();
    seen.extend(&selection.mapping);
    seen.extend(selection.aside.iter().map(|aside| aside.entry));
    seen.extend((0..entries.len()).filter(|at| path(*at).ends_with("server_args.json")));
    seen.sort_unstable();
    assert_eq!(seen, (0..entries.len()).collect::<Vec<_>>(), "{selection:?}");
    Chose {
        traces: selection.traces.iter().map(|chosen| path(chosen.entry)).collect(),
        mapping: selection.mapping.iter().map(|at| path(*at)).collect(),
        aside: selection.aside.iter().map(|aside| (path(aside.entry), aside.why.clone())).collect(),
        selection,
    }
}

fn chose(paths: &[&str]) -> Chose {
    chose_knowing(paths, &[])
}

fn why<'a>(chose: &'a Chose, path: &str) -> &'a str {
    &chose.aside.iter().find(|(aside, _)| aside == path).unwrap_or_else(|| panic!("{path}: {:?}", chose.aside)).1
}

#[test]
fn sglang_s_stage_files_of_the_first_rank_are_chosen_in_the_order_of_stages() {
    let chose = chose(&[
        "1757000000-TP-0-DECODE.trace.json.gz",
        "1757000000-TP-1-DECODE.trace.json.gz",
        "1757000000-TP-0-EXTEND.trace.json.gz",
        "1757000000-TP-1-EXTEND.trace.json.gz",
        "1756000000-TP-0-EXTEND.trace.json.gz",
        "merged-1757000000.trace.json.gz",
        "server_args.json",
    ]);
    assert_eq!(chose.traces, ["1757000000-TP-0-EXTEND.trace.json.gz", "1757000000-TP-0-DECODE.trace.json.gz"]);
    assert!(why(&chose, "merged-1757000000.trace.json.gz").contains("merged"));
    assert!(why(&chose, "1757000000-TP-1-DECODE.trace.json.gz").contains("another rank"));
    // The ranks beside the chosen files, to be looked at side by side.
    let beside: Vec<_> = chose.selection.aside.iter().map(|aside| (aside.entry, aside.rank_beside)).collect();
    assert_eq!(beside, [(1, Some(0)), (3, Some(2)), (4, None), (5, None)]);
    assert!(
        why(&chose, "1756000000-TP-0-EXTEND.trace.json.gz")
            .contains("the newest of its stage, which is 1757000000-TP-0-EXTEND")
    );
    assert!(chose.selection.traces.iter().all(|chosen| chosen.server_args == Some(6)));
}

#[test]
fn a_merged_file_is_taken_where_nothing_else_is_there() {
    assert_eq!(chose(&["merged-17.trace.json.gz", "run.log"]).traces, ["merged-17.trace.json.gz"]);
}

#[test]
fn vllm_s_front_end_tables_and_graph_captures_are_no_traces_to_triage() {
    let worker = "dp0_pp0_tp0_dcp0_ep0_rank0.1757000000000000000.pt.trace.json.gz";
    let other = "dp0_pp0_tp1_dcp0_ep1_rank1.1757000000000000000.pt.trace.json.gz";
    let capture = "capture_traces/dp0_pp0_tp0_dcp0_ep0_rank0.1756000000000000000.pt.trace.json.gz";
    let chose = chose(&[
        "host_42.async_llm.1757000000000000000.pt.trace.json.gz",
        other,
        worker,
        "dp0_pp0_tp0_dcp0_ep0_rank0.profiler_out.txt",
        capture,
        "capture_traces/dp0_pp0_tp1_dcp0_ep1_rank1.1756000000000000000.pt.trace.json.gz",
    ]);
    assert_eq!((chose.traces, chose.mapping), (vec![worker.to_owned()], vec![capture.to_owned()]));
    assert_eq!(chose.aside.len(), 4);
}

#[test]
fn a_replica_whose_ranks_are_all_zero_comes_first_and_else_the_lowest() {
    let replicas = ["dp1_pp0_tp0_rank8.17.json", "dp0_pp0_tp0_rank0.17.json", "dp0_pp0_tp1_rank1.17.json"];
    assert_eq!(chose(&replicas).traces, ["dp0_pp0_tp0_rank0.17.json"]);
    assert_eq!(chose(&["x-TP-3.json", "x-TP-10.json"]).traces, ["x-TP-3.json"]);
}

#[test]
fn an_encoder_server_stands_back_behind_the_model() {
    let both = chose(&["enc-rank0-1758000000.trace.json", "1757000000-TP-0.trace.json.gz"]);
    assert_eq!(both.traces, ["1757000000-TP-0.trace.json.gz"]);
    assert!(why(&both, "enc-rank0-1758000000.trace.json").contains("encoder"));
    assert_eq!(chose(&["enc-rank0-1758000000.trace.json"]).traces.len(), 1);
}

#[test]
fn folders_count_as_stages_and_otherwise_the_newest_folder_is_taken() {
    let stages = chose(&["prefill/17/a-TP-0.json", "prefill/17/server_args.json", "decode/17/a-TP-0.json"]);
    assert_eq!(stages.traces, ["prefill/17/a-TP-0.json", "decode/17/a-TP-0.json"]);
    let args: Vec<_> = stages.selection.traces.iter().map(|chosen| chosen.server_args).collect();
    assert_eq!(args, [Some(1), None]);
    let runs = chose(&["1757000000/a.json", "1757000009/a.json", "1757000001/b.json"]);
    assert_eq!(runs.traces, ["1757000009/a.json"]);
    assert_eq!(chose(&["a.json", "old/1757000009.json"]).traces, ["a.json"]);
}

#[test]
fn the_answer_does_not_depend_on_the_order_of_the_files() {
    let mut paths = vec![
        "1757000000-TP-0.json",
        "1757000001-TP-0.json",
        "b.json",
        "a-rank0.json",
        "capture.json",
        "capture2.json",
        "x/merged-1757000005.json",
    ];
    let wanted = chose(&paths);
    for _ in 0..paths.len() {
        paths.rotate_left(1);
        let rotated = chose(&paths);
        assert_eq!((rotated.traces, rotated.mapping), (wanted.traces.clone(), wanted.mapping.clone()));
    }
}

#[test]
fn what_a_file_holds_overrules_its_name_and_the_next_best_takes_its_place() {
    let paths = ["1757000002-TP-0.json", "1757000001-TP-0.json", "my_capture-TP-0.json", "benchmark.json"];
    assert_eq!(chose(&paths).traces, [paths[0]]);
    let host_only = chose_knowing(&paths, &[(0, Content::HostOnly)]);
    assert_eq!(
        (host_only.traces.as_slice(), host_only.mapping.as_slice()),
        (&[paths[1].to_owned()][..], &[paths[2].to_owned()][..])
    );
    assert!(why(&host_only, paths[0]).contains("no GPU work"));
    let work = chose_knowing(&paths, &[(2, Content::Work), (0, Content::Capture), (1, Content::NoTrace)]);
    assert_eq!(
        (work.traces.as_slice(), work.mapping.as_slice()),
        (&[paths[2].to_owned()][..], &[paths[0].to_owned()][..])
    );
}

#[test]
fn traces_without_gpu_work_are_taken_where_there_are_no_others() {
    let host_only = chose_knowing(&["a.json", "notes.json"], &[(0, Content::HostOnly), (1, Content::NoTrace)]);
    assert_eq!(host_only.traces, ["a.json"]);
    let capture = chose_knowing(&["a.json", "b.json"], &[(0, Content::HostOnly), (1, Content::Capture)]);
    assert_eq!((capture.traces, capture.mapping), (vec!["b.json".to_owned()], Vec::new()));
    assert!(chose(&["capture.json"]).mapping.is_empty(), "a word in the only name");
}

#[test]
fn nothing_to_triage_is_no_panic_and_each_file_has_its_reason() {
    for paths in [&[][..], &["README.md"], &["server_args.json"], &["config.json", "x.viztracer.json"]] {
        assert!(chose(paths).traces.is_empty());
    }
    let mut empty = entry("a-TP-0.json");
    empty.bytes = 0;
    let selection = select(&[empty], &[]);
    assert_eq!(selection.aside[0].why, "empty");
    // Places that are none.
    assert_eq!(select(&[], &[(7, Content::Work)]), Selection::default());
}

#[test]
fn the_log_of_a_diffusers_run_is_known_by_its_words() {
    let log = "INFO Loading\nWARNING Falling back to diffusers backend for model x\n";
    assert_eq!(diffusion(log), Some("Falling back to diffusers backend"));
    assert_eq!(diffusion("INFO Using the native backend, not diffusers\n"), None);
}

mod any_folder {
    use super::*;
    use proptest::prelude::*;

    fn name() -> impl Strategy<Value = String> {
        let part = prop::sample::select(vec![
            "TP-0",
            "TP-1",
            "rank0",
            "rank3",
            "EXTEND",
            "decode",
            "merged",
            "capture",
            "async_llm",
            "1757000000",
            "1757000000.25",
            "capture_traces",
            "x",
            "\u{1f600}",
            "",
        ]);
        let end = prop::sample::select(vec![".json", ".trace.json.gz", ".txt", "/server_args.json", "/a.json"]);
        (prop::collection::vec((part, prop::sample::select(vec!["-", "_", "/", "."])), 0..5), end).prop_map(
            |(parts, end)| {
                parts.into_iter().map(|(part, between)| format!("{part}{between}")).collect::<String>() + end
            },
        )
    }

    fn content() -> impl Strategy<Value = Content> {
        prop::sample::select(vec![Content::Work, Content::Capture, Content::HostOnly, Content::NoTrace])
    }

    proptest! {
        /// `chose_knowing` checks that every file is accounted for; here, that what is chosen hangs on names alone.
        #[test]
        fn every_file_has_its_place_and_the_order_of_files_does_not_matter(
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
            let forth = chose_knowing(&paths, &last);
            let reversed: Vec<&str> = paths.iter().rev().copied().collect();
            let last: Vec<(usize, Content)> = last.into_iter().map(|(at, content)| (paths.len() - 1 - at, content)).collect();
            let back = chose_knowing(&reversed, &last);
            prop_assert_eq!((forth.traces, forth.mapping), (back.traces, back.mapping));
        }
    }
}

#[test]
fn of_thousands_of_files_the_newest_of_each_other_rank_is_told_at_once() {
    let names: Vec<String> =
        (0..6_000).map(|at| format!("{}-TP-{}-DECODE.trace.json", 1_757_000_000 + at, at % 2_000)).collect();
    let entries: Vec<Entry> = names.iter().map(|name| entry(name)).collect();
    let begin = std::time::Instant::now();
    let selection = select(&entries, &[]);
    // To read each name once for each other one is 36 million readings.
    assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
    let beside: Vec<usize> =
        selection.aside.iter().filter(|aside| aside.rank_beside.is_some()).map(|a| a.entry).collect();
    assert_eq!(beside, (4_001..6_000).collect::<Vec<_>>());
    assert_eq!(selection.traces[0].entry, 4_000);
}
