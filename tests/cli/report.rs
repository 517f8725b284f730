//! `gpuprism report`: every format prints the hand-computed numbers, and every flag has its effect.

use crate::cli::example::{self, CPU, GEMM, KNOWN, Known, NCCL, UNION, UNION_ALL, WINDOW, write_torch};
use crate::common::{csv_rows, directory, file_name, files, gpuprism, json_runs, printed, shared};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn example(test: &str) -> PathBuf {
    let folder = directory(test);
    write_torch(&folder, "five.json");
    folder
}

fn report(folder: &Path, format: &str) -> String {
    printed(folder, ["report", "five.json", "--format", format])
}

fn table(folder: &Path, name: &str) -> Vec<Vec<String>> {
    csv_rows(&printed(folder, ["report", "five.json", "--format", "csv", "--table", name]))
}

fn rows(rows: &[&[&str]]) -> Vec<Vec<String>> {
    rows.iter().map(|row| row.iter().map(|&cell| cell.to_owned()).collect()).collect()
}

#[test]
fn json_contains_the_hand_computed_numbers() {
    let run = &json_runs(&example("report_json"), &["five.json"])[0];
    let totals = json!({"gpu_ops": 5, "kernels": 4, "distinct_names": 3, "duration_ns": 43_000, "kernel_duration_ns": 38_000,
        "union_ns": UNION[0] + UNION[1], "union_all_ns": UNION_ALL, "window_ns": WINDOW, "elapsed_ns": 38_000});
    assert_eq!(run["totals"], totals);
    let wall = json!({"wall_ns": WINDOW, "source": "window", "bar_ns": 2 * WINDOW, "cpu_ns": CPU, "cpu_share": 16.0 / 54.0,
        "busy_share": 38.0 / 54.0, "shared_ns": 0, "shared_share": 0.0});
    assert_eq!(run["wall"], wall);
    let device = |id: &str, ops: i64, duration: i64, union: i64, window: i64| {
        json!({"id": id, "name": "", "gpu_ops": ops, "duration_ns": duration, "union_ns": union, "window_ns": window,
            "idle_ns": WINDOW - union, "busy_share": union as f64 / WINDOW as f64})
    };
    let devices = [device("0", 3, 25_000, UNION[0], WINDOW), device("1", 2, 18_000, UNION[1], 18_000)];
    assert_eq!(run["devices"], json!(devices));
    let kernel = |known: &Known| {
        json!({"name": known.name, "short_name": known.name, "category": known.category, "category_source": "rule", "count": known.count,
            "duration_ns": known.duration, "elapsed_ns": known.fair, "exclusive_ns": known.exclusive,
            "fair_ns": known.fair, "elapsed_share": known.fair as f64 / 38_000.0,
            "mean_ns": known.duration as f64 / known.count as f64, "min_ns": known.range.0, "max_ns": known.range.1})
    };
    assert_eq!(run["kernels"], json!(KNOWN.iter().map(kernel).collect::<Vec<_>>()));
    assert_eq!(run["notices"], json!([]));
}

#[test]
fn csv_contains_the_hand_computed_numbers() {
    let folder = example("report_csv");
    let kernels = table(&folder, "kernels");
    let column = |row: usize, key: &str| &kernels[row][kernels[0].iter().position(|title| title == key).unwrap()];
    for (row, known) in KNOWN.iter().enumerate().map(|(index, known)| (index + 1, known)) {
        assert_eq!(
            [column(row, "run"), column(row, "name"), column(row, "category")],
            ["five.json", known.name, known.category]
        );
        let numbers = [
            ("count", known.count),
            ("duration_ns", known.duration),
            ("elapsed_ns", known.fair),
            ("exclusive_ns", known.exclusive),
            ("fair_ns", known.fair),
            ("min_ns", known.range.0),
            ("max_ns", known.range.1),
        ];
        for (key, number) in numbers {
            assert_eq!(column(row, key), &number.to_string(), "{key} of {}", known.name);
        }
    }
    assert_eq!(kernels.len(), 4);
    let pivot: &[&[&str]] = &[
        &["category", "five.json"],
        &["gemm", "17500"],
        &["communication", "15500"],
        &["memory", "5000"],
        &["CPU (non-GPU)", "16000"],
    ];
    assert_eq!(table(&folder, "pivot"), rows(pivot));
    let elapsed: Vec<Vec<String>> =
        table(&folder, "categories").into_iter().map(|row| [&row[1..2], &row[4..5]].concat()).collect();
    assert_eq!(elapsed[1..], rows(pivot)[1..]);
    let devices = table(&folder, "devices");
    assert_eq!(devices[1][..7], rows(&[&["five.json", "0", "", "3", "25000", "20000", "7000"]])[0]);
    assert_eq!(devices[2][..7], rows(&[&["five.json", "1", "", "2", "18000", "18000", "9000"]])[0]);
    assert_eq!(table(&folder, "notices").len(), 1);
}

/// The cells of every line that starts with one of these cells.
fn lines<'a>(text: &'a str, first_cells: &[&str], cells: impl Fn(&'a str) -> Vec<&'a str>) -> Vec<Vec<&'a str>> {
    let rows = text.lines().map(cells);
    rows.filter(|row| row.first().is_some_and(|first| first_cells.contains(first))).collect()
}

#[test]
fn the_screen_shows_the_hand_computed_numbers() {
    let text = report(&example("report_screen"), "terminal");
    let first = ["gemm", "communication", "memory", GEMM, NCCL];
    let want: &[&[&str]] = &[
        &["gemm", "2", "17.5", "46.1"],
        &["communication", "2", "15.5", "40.8"],
        &["memory", "1", "5.00", "13.2"],
        &[GEMM, "gemm", "2", "17.5", "46.1", "10.0"],
        &[NCCL, "communication", "2", "15.5", "40.8", "9.00"],
    ];
    let (_verdict, tables) = text.split_once("\n\n").unwrap();
    assert_eq!(lines(tables, &first, |line| line.split_whitespace().collect()), want, "{text}");
    assert!(text.contains("(us)") && text.contains("busy 70.4 % of the trace window"), "{text}");
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("--all adds ") && last.contains("--table NAME"), "{last}");
}

#[test]
fn all_prints_the_hand_computed_numbers_of_every_table() {
    let text = printed(&example("report_all"), ["report", "five.json", "--all"]);
    let first = ["gemm", "communication", "memory", "0", "1", GEMM, NCCL, "total"];
    let want: &[&[&str]] = &[
        &["0", "3", "25.0", "20.0", "7.00", "74.1", "27.0"],
        &["1", "2", "18.0", "18.0", "9.00", "66.7", "18.0"],
        &["gemm", "2", "20.0", "17.5", "46.1", "32.4", "15.0", "17.5"],
        &["communication", "2", "18.0", "15.5", "40.8", "28.7", "13.0", "15.5"],
        &["memory", "1", "5.00", "5.00", "13.2", "9.26", "5.00", "5.00"],
        &[GEMM, "gemm", "2", "20.0", "17.5", "46.1", "10.0", "10.0", "10.0", "15.0", "17.5"],
        &[NCCL, "communication", "2", "18.0", "15.5", "40.8", "9.00", "8.00", "10.0", "13.0", "15.5"],
        &["total", "5", "43.0", "38.0"],
    ];
    let found = lines(&text, &first, |line| line.split_whitespace().collect());
    assert_eq!(found[..want.len()], *want, "{text}");
    let cells = |line: &str| line.split_whitespace().collect::<Vec<_>>() == ["GPU", "idle", "16.0", "29.6"];
    assert!(text.lines().any(cells), "{text}");
}

#[test]
fn a_limit_applies_to_the_kernels_and_counts_the_rest() {
    let all = |limit| printed(&example("report_limit_of_all"), ["report", "five.json", "--limit", limit]);
    assert_eq!(all("99999999999999999999999"), all("0"));
    let limited = printed(&example("report_limit"), ["report", "five.json", "--limit", "1"]);
    let (_, kernels) = limited.split_once("\nKernels (first 1 of 3)").unwrap();
    assert!(kernels.contains("2 more kernels") && !kernels.contains("ncclDev"), "{limited}");
    let table = printed(&example("report_limit_table"), ["report", "five.json", "--table", "kernels", "--limit", "1"]);
    assert!(table.contains("2 more rows") && !table.contains("ncclDev"), "{table}");
}

/// Every table of kernels of one report shows the same share of a kernel.
#[test]
fn the_shares_of_the_kernels_add_up_to_the_whole() {
    let folder = example("report_shares");
    let text = printed(&folder, ["report", "five.json", "--limit", "1"]);
    let share = |line: &str| line.split_whitespace().rev().find_map(|cell| cell.parse::<f64>().ok());
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("more kernels")).collect();
    // 100 - 46.1 of the first kernel.
    assert_eq!(rows.iter().filter_map(|line| share(line)).collect::<Vec<f64>>(), [53.9]);
}

#[test]
fn the_html_report_has_one_share_for_each_kernel_and_exports_have_the_others() {
    let folder = example("report_one_share");
    let page = report(&folder, "html");
    let headings = |id: &str| {
        let table = page.split(&format!("<table id=\"{id}\">")).nth(1).unwrap();
        table.split("</thead>").next().unwrap().matches('%').count()
    };
    assert_eq!((headings("kernels"), headings("top_kernels"), headings("kernels_by_pid")), (1, 0, 1));
    for (table, key) in [("top_kernels", "pct_total_kernel_time"), ("kernels_by_pid", "pct_of_total_kernel_time")] {
        let csv = printed(&folder, ["report", "five.json", "--format", "csv", "--table", table]);
        assert!(csv.lines().next().unwrap().contains(key), "{csv}");
    }
}

#[test]
fn a_report_fits_one_screen_of_forty_lines() {
    let folder = directory("report_forty_lines");
    let events: Vec<Value> = (0..60)
        .map(|index| {
            let name = format!("void at::native::kernel_{index}_of_a_long_family<float, {index}>(int)");
            json!({"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": index * 20, "dur": 10 + index % 7,
                "args": {"device": 0, "stream": 7, "correlation": index}})
        })
        .collect();
    std::fs::write(folder.join("many.json"), json!({"traceEvents": events}).to_string()).unwrap();
    let mut screens = vec![printed(&folder, ["report", "many.json"])];
    let two = printed(&folder, ["report", "many.json", "many.json"]);
    assert!(two.contains("Runs ") && two.contains("many.json (2)"), "{two}");
    screens.push(two);
    assert_fit_one_screen(&screens);
}

fn assert_fit_one_screen(screens: &[String]) {
    for text in screens {
        assert!(text.lines().count() <= 40, "{} lines:\n{text}", text.lines().count());
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
        assert!(text.lines().last().unwrap_or_default().contains("--table NAME"), "{text}");
    }
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn a_report_of_a_real_trace_fits_one_screen_of_forty_lines() {
    let (traces, exports) = (shared("traces/torch"), shared("traces/nsys"));
    let paths = [files(&traces, ".json.gz"), files(&exports, ".sqlite")].concat();
    assert!(paths.len() >= 30, "{} traces", paths.len());
    let mut screens: Vec<String> =
        paths.iter().map(|path| printed(&traces, ["report", path.to_str().unwrap()])).collect();
    let ranks = files(&traces.join("dlrm_v100_8ranks"), ".json.gz");
    let args: Vec<&str> = std::iter::once("report").chain(ranks.iter().map(|path| path.to_str().unwrap())).collect();
    screens.push(printed(&traces, args));
    assert_fit_one_screen(&screens);
}

#[test]
fn markdown_contains_the_hand_computed_numbers() {
    let whole = report(&example("report_markdown"), "markdown");
    let text = whole.split("\n## Top kernels").next().unwrap().to_owned();
    let first = ["gemm", "communication", "memory", "GPU idle", "0", "1", r"nvjet\_tst\_64x8", "total"];
    let want: &[&[&str]] = &[
        &[r"nvjet\_tst\_64x8", "gemm", "2", "20.0", "17.5", "46.1", "10.0", "10.0", "10.0", "15.0", "17.5"],
        &["total", "", "5", "43.0", "38.0", "", "", "", "", "", ""],
        &["gemm", "17.5"],
        &["communication", "15.5"],
        &["memory", "5.00"],
        &["GPU idle", "16.0"],
        &["total", "54.0"],
        &["gemm", "2", "20.0", "17.5", "46.1", "32.4", "15.0", "17.5"],
        &["communication", "2", "18.0", "15.5", "40.8", "28.7", "13.0", "15.5"],
        &["memory", "1", "5.00", "5.00", "13.2", "9.26", "5.00", "5.00"],
        &["GPU idle", "", "", "16.0", "", "29.6", "", ""],
        &["0", "", "3", "25.0", "20.0", "7.00", "74.1", "27.0"],
        &["1", "", "2", "18.0", "18.0", "9.00", "66.7", "18.0"],
    ];
    let cells = |line: &'static str| line.trim_matches('|').split('|').map(str::trim).collect();
    assert_eq!(lines(text.leak(), &first, cells), want);
}

#[test]
fn html_contains_the_hand_computed_numbers() {
    let page = report(&example("report_html"), "html");
    let exact = |id: &str| -> Vec<Vec<&str>> {
        let table = page.split(&format!("<table id=\"{id}\">")).nth(1).unwrap().split("</tbody>").next().unwrap();
        let values =
            |row| str::split(row, "data-value=\"").skip(1).map(|cell| cell.split('"').next().unwrap()).collect();
        table.split("<tr").skip(2).map(values).collect()
    };
    for (row, known) in exact("kernels").iter().zip(&KNOWN) {
        let Known { count, duration, exclusive, fair, range, .. } = known;
        let found = [row[0], row[1], row[2], row[5], row[6], row[7], row[8]];
        let want = [count, duration, fair, &range.0, &range.1, exclusive, fair].map(i64::to_string);
        assert_eq!(found, want.each_ref().map(String::as_str), "{}", known.name);
    }
    assert_eq!(exact("pivot"), [["17500"], ["15500"], ["5000"], ["16000"]]);
    assert_eq!(exact("devices")[1][..4], ["2", "18000", "18000", "9000"]);
}

/// The reader sees first what the time went to, then when, then what to do.
#[test]
fn html_begins_with_the_verdict_the_timeline_the_bar_and_the_events_over_time() {
    let folder = example("report_html_order");
    let (page, terminal) = (report(&folder, "html"), report(&folder, "terminal"));
    let verdict = page.split("<p class=\"verdict\">").nth(1).unwrap().split("</p>").next().unwrap();
    let first_sentence = verdict.split(';').next().unwrap();
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(first_sentence.len() > 10 && words(&terminal).contains(&words(first_sentence)), "{verdict}");
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
    let order = [
        "class=\"verdict\"",
        "<strong>Timeline</strong>",
        "Where the time went",
        "<strong>Longest events over time</strong>",
        "What to do",
        "id=\"kernels\"",
    ];
    assert!(order.map(at).is_sorted(), "{:?}", order.map(at));
    assert_eq!(page.matches("<strong>Longest events over time</strong>").count(), 1);
}

#[test]
fn the_csv_of_nsys_gives_the_same_numbers_as_the_torch_trace() {
    let folder = example("report_nsys_csv");
    std::fs::write(folder.join("five.csv"), example::NSYS_CSV).unwrap();
    let [torch, nsys] = &json_runs(&folder, &["five.json", "five.csv"])[..] else { panic!("two runs") };
    assert_eq!((&torch["label"], &nsys["label"]), (&json!("five.json"), &json!("five.csv")));
    assert_eq!((&nsys["totals"], &nsys["wall"]), (&torch["totals"], &torch["wall"]));
    assert_eq!(nsys["categories"], torch["categories"]);
    assert_eq!(nsys["devices"][1]["name"], "NVIDIA H100");
}

#[test]
fn an_earlier_report_reads_back_unchanged_and_can_be_combined_with_traces() {
    let folder = example("report_again");
    let first = report(&folder, "json");
    std::fs::write(folder.join("earlier.json"), &first).unwrap();
    assert_eq!(printed(&folder, ["report", "earlier.json", "--format", "json"]), first);
    for format in ["terminal", "csv", "markdown"] {
        let again = printed(&folder, ["report", "earlier.json", "--format", format]);
        assert_eq!(again, report(&folder, format), "{format}");
    }
    // Only the trace has what ran when.
    let pages = [printed(&folder, ["report", "earlier.json", "--format", "html"]), report(&folder, "html")];
    assert_eq!(pages.each_ref().map(|page| page.contains("<strong>Timeline</strong>")), [false, true]);
    let [again, first] = pages.each_ref().map(|page| page.split_once("class=\"dashboard\"").unwrap().1);
    assert_eq!(again, first);
    let runs = json_runs(&folder, &["earlier.json", "five.json"]);
    assert_eq!(runs[0], runs[1]);
    let pivot =
        csv_rows(&printed(&folder, ["report", "earlier.json", "five.json", "--format", "csv", "--table", "pivot"]));
    assert_eq!(pivot[0], ["category", "five.json", "five.json (2)", "total"]);
    assert_eq!(pivot[1], ["gemm", "17500", "17500", "35000"]);
}

#[test]
fn a_gzipped_trace_gives_the_same_report() {
    let folder = example("report_packed");
    let packed = std::fs::File::create(folder.join("packed.json.gz")).unwrap();
    let mut encoder = flate2::write::GzEncoder::new(packed, flate2::Compression::default());
    std::io::Write::write_all(&mut encoder, &std::fs::read(folder.join("five.json")).unwrap()).unwrap();
    encoder.finish().unwrap();
    let runs = json_runs(&folder, &["five.json", "packed.json.gz"]);
    assert_eq!((&runs[0]["totals"], &runs[0]["kernels"]), (&runs[1]["totals"], &runs[1]["kernels"]));
}

/// Five kernels of 1 ms. A blocking call returns when each of them ends, and the next launch is 0.2 ms later. `code` is listed before
/// the calls, on the thread of the calls.
fn drains(code: &[(&str, &str)]) -> Value {
    let event = |category: &str, name: &str, (start, duration): (u32, u32), args: Value| json!({"ph": "X", "cat": category, "name": name, "pid": 9, "tid": 9, "ts": start, "dur": duration, "args": args});
    let mut events: Vec<Value> =
        code.iter().map(|(category, name)| event(category, name, (0, 6_000), json!({}))).collect();
    for index in 0..5 {
        let start = index * 1_200;
        events.push(event("cuda_runtime", "cudaLaunchKernel", (start, 2), json!({"correlation": 2 * index})));
        let on_gpu = json!({"device": 0, "stream": 7, "correlation": 2 * index});
        events.push(event("kernel", "gemm", (start + 5, 995), on_gpu));
        let call = json!({"correlation": 2 * index + 1});
        events.push(event("cuda_runtime", "cudaStreamSynchronize", (start + 10, 992), call));
    }
    json!({"traceEvents": events})
}

#[test]
fn idle_time_after_a_blocking_call_is_attributed_to_the_code_that_made_it() {
    let folder = directory("report_drains");
    let code = [("cpu_op", "aten::item"), ("python_function", "sglang/batch.py(123): get_next_batch")];
    let text = drains(&code).to_string();
    std::fs::write(folder.join("t.json"), &text).unwrap();
    let packed = std::fs::File::create(folder.join("t.json.gz")).unwrap();
    let mut encoder = flate2::write::GzEncoder::new(packed, flate2::Compression::default());
    std::io::Write::write_all(&mut encoder, text.as_bytes()).unwrap();
    encoder.finish().unwrap();
    std::fs::write(folder.join("no_code.json"), drains(&[]).to_string()).unwrap();
    let runs = json_runs(&folder, &["t.json", "t.json.gz", "no_code.json"]);
    let evidence = |run: &Value| {
        let finding = find(&run["sections"]["findings"]["rows"], "id", "sync-drain");
        let calls = finding["evidence"].as_str().unwrap().rsplit_once("By call: ").unwrap().1;
        calls.split(". Replayed").next().unwrap().to_owned()
    };
    for run in runs.iter().take(2) {
        let site = "aten::item, called from sglang/batch.py(123): get_next_batch";
        assert_eq!(evidence(run), format!("cudaStreamSynchronize in {site} (820 us)"));
        for table in ["sync", "barriers"] {
            let row = find(&run["sections"][table]["rows"], "api_name", "cudaStreamSynchronize");
            assert_eq!((&row["call_site"], &row["idle_after_ms"]), (&json!(site), &json!(0.82)), "{table}");
        }
    }
    assert_eq!(evidence(&runs[2]), "cudaStreamSynchronize (820 us)");
    let rows = &runs[2]["sections"]["sync"]["rows"];
    assert_eq!(find(rows, "api_name", "cudaStreamSynchronize")["call_site"], json!(null));
}

#[test]
fn attribution_decides_which_op_gets_the_time_of_an_overlap() {
    let folder = example("report_attribution");
    let owned_by = |known: &Known, way: &str| match way {
        "first-come" => known.first_come,
        "exclusive" => known.exclusive,
        _ => known.fair,
    };
    for way in ["first-come", "exclusive", "fair"] {
        let run = &json_runs(&folder, &["five.json", "--attribution", way])[0];
        for known in &KNOWN {
            let kernel = find(&run["kernels"], "name", known.name);
            assert_eq!(kernel["elapsed_ns"], owned_by(known, way), "{way}, {}", known.name);
        }
        let owned: i64 = KNOWN.iter().map(|known| owned_by(known, way)).sum();
        // Time that no op gets is reported as shared, so the parts of the bar still add up.
        assert_eq!((&run["totals"]["elapsed_ns"], &run["wall"]["shared_ns"]), (&json!(owned), &json!(38_000 - owned)));
        assert_eq!(run["wall"]["cpu_ns"], CPU);
    }
}

#[test]
fn merged_devices_are_one_timeline_and_still_listed() {
    let args = ["five.json", "--merge-devices", "--attribution", "first-come"];
    let run = &json_runs(&example("report_merged"), &args)[0];
    // In order of start: gemm 100 to 110, gemm on to 112, NCCL on to 115, NCCL on to 120, copy.
    for (category, elapsed) in [("gemm", 12_000), ("communication", 8_000), ("memory", 5_000)] {
        assert_eq!(find(&run["categories"], "category", category)["elapsed_ns"], elapsed);
    }
    assert_eq!(run["wall"]["bar_ns"], WINDOW);
    assert_eq!(run["wall"]["cpu_ns"], WINDOW - UNION_ALL);
    assert_eq!([&run["devices"][0]["union_ns"], &run["devices"][1]["union_ns"]], [UNION[0], UNION[1]]);
}

fn find<'a>(list: &'a Value, key: &str, value: &str) -> &'a Value {
    list.as_array().unwrap().iter().find(|entry| entry[key] == value).unwrap()
}

#[test]
fn seconds_are_the_wall_time_of_each_file() {
    let folder = example("report_seconds");
    let wall = |args: &[&str]| json_runs(&folder, &[&["five.json"], args].concat())[0]["wall"].clone();
    let given = wall(&["--seconds", "0.0001"]);
    assert_eq!(
        (&given["source"], &given["wall_ns"], &given["cpu_ns"]),
        (&json!("given"), &json!(100_000), &json!(162_000))
    );
    for none in ["0", "0.0", ""] {
        assert_eq!(wall(&["--seconds", none]), wall(&[]), "{none:?}");
    }
    let runs = json_runs(&folder, &["five.json", "five.json", "--seconds", ".0001", "--seconds", "0"]);
    assert_eq!((&runs[0]["wall"]["source"], &runs[1]["wall"]["source"]), (&json!("given"), &json!("window")));
    let runs = json_runs(&folder, &["five.json", "five.json", "--seconds", "0.0001"]);
    assert_eq!((&runs[0]["wall"], &runs[1]["wall"]), (&given, &given));
}

#[test]
fn a_wall_time_below_the_busy_time_is_raised_with_a_notice() {
    let folder = example("report_short_wall");
    let run = &json_runs(&folder, &["five.json", "--seconds", "0.00001"])[0];
    let wall = &run["wall"];
    assert_eq!(
        (&wall["source"], &wall["wall_ns"], &wall["cpu_ns"]),
        (&json!("raised_to_busy"), &json!(20_000), &json!(2_000))
    );
    let notice = &run["notices"][0];
    assert_eq!((&notice["code"], &notice["severity"]), (&json!("wall_below_busy"), &json!("warning")));
    let text = printed(&folder, ["report", "five.json", "--seconds", "0.00001"]);
    assert!(text.contains("warning: the given wall time"), "{text}");
}

#[test]
fn the_notice_about_missing_gpu_work_comes_first() {
    let folder = directory("report_no_gpu");
    let event = r#"{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 2}"#;
    example::write_events(&folder, "cpu.json", &[event.to_owned(), event.to_owned()]);
    for format in ["terminal", "markdown", "html"] {
        let text = printed(&folder, ["report", "cpu.json", "--format", format]);
        let output = text.find("no GPU events; 2 CPU events").unwrap_or_else(|| panic!("{format}: {text}"));
        assert!(text.contains("ProfilerActivity.CUDA"), "{text}");
        assert!(text.find("Devices").is_none_or(|tables| output < tables), "{format}");
    }
    let run = &json_runs(&folder, &["cpu.json"])[0];
    assert_eq!(
        (&run["notices"][0]["code"], &run["notices"][0]["severity"]),
        (&json!("no_gpu_events"), &json!("error"))
    );
    assert_eq!(run["totals"]["union_ns"], 0);
}

#[test]
fn a_time_span_of_days_is_a_warning_unless_the_wall_time_is_given() {
    let folder = directory("report_endless");
    let late = example::op("kernel", "b", 0, 7, 77, 5).replace("77", "1700000000000000");
    let ops = [example::op("kernel", "a", 0, 7, 0, 5), late];
    example::write_events(&folder, "lost.json", &ops);
    let codes = |args: &[&str]| {
        let run = &json_runs(&folder, &[&["lost.json"], args].concat())[0];
        run["notices"].as_array().unwrap().iter().map(|notice| notice["code"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(codes(&[]), ["endless_window"]);
    assert!(codes(&["--seconds", "2"]).is_empty());
}

#[test]
fn rules_from_files_come_before_the_built_in_rules() {
    let folder = example("report_rules");
    let category = |args: &[&str], name: &str| {
        let run = &json_runs(&folder, &[&["five.json"], args].concat())[0];
        let kernel = find(&run["kernels"], "name", name);
        (run["rules"].as_str().unwrap().to_owned(), kernel["category"].as_str().unwrap().to_owned())
    };
    let is = |rules: &str, category: &str| (rules.to_owned(), category.to_owned());
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("adds.json", r#"{"gpuprism": {"default": {"^nvjet": "mine"}}}"#);
    assert_eq!(category(&["--rules", "adds.json"], GEMM), is("gpuprism/default", "mine"));
    assert_eq!(category(&["--rules", "adds.json"], NCCL), is("gpuprism/default", "communication"));
    write("own.json", r#"{"acme": {"tiny": {"^nvjet": "mine", ".*": "rest"}}}"#);
    assert_eq!(category(&["--rules", "own.json"], GEMM), is("acme/tiny", "mine"));
    assert_eq!(category(&["--rules", "own.json"], NCCL), is("acme/tiny", "rest"));
    write("two.json", r#"{"acme": {"tiny": {"^nvjet": "mine"}, "big": {"^nvjet": "large"}}}"#);
    assert_eq!(category(&["--rules", "two.json"], GEMM), is("gpuprism/default", "gemm"));
    let picked = ["--rules", "two.json", "--engine", "acme", "--model", "big"];
    assert_eq!(category(&picked, GEMM), is("acme/big", "large"));
    assert_eq!(category(&picked, NCCL), is("acme/big", "misc"));
    assert_eq!(category(&["--engine", "vllm", "--model", "llama"], GEMM), is("vllm/llama", "gemm"));
}

#[test]
fn a_rule_defined_twice_is_a_notice() {
    let folder = example("report_rules_twice");
    for (file, category) in [("a.json", "first"), ("b.json", "second")] {
        let text = format!(r#"{{"gpuprism": {{"default": {{"^nvjet": "{category}"}}}}}}"#);
        std::fs::write(folder.join(file), text).unwrap();
    }
    let run = &json_runs(&folder, &["five.json", "--rules", "a.json", "--rules", "b.json"])[0];
    assert_eq!(find(&run["kernels"], "name", GEMM)["category"], "second");
    let notice = find(&run["notices"], "code", "duplicate_rule")["message"].as_str().unwrap();
    assert!(["b.json", "^nvjet", "first", "second"].iter().all(|word| notice.contains(word)), "{notice}");
}

#[test]
fn a_closed_pipe_is_not_an_error_and_a_full_disk_is_one() {
    let folder = directory("report_pipe");
    // Far more output than a pipe buffers.
    let events: Vec<String> =
        (0..5_000).map(|n| example::op("kernel", &format!("kernel_{n}"), 0, 7, n * 10, 5)).collect();
    example::write_events(&folder, "many.json", &events);
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuprism"));
    command.args(["report", "many.json", "--format", "json"]).current_dir(&folder).stderr(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
    let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") else { return };
    let output = command.stdout(full).spawn().unwrap().wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn trace_event_files_without_gpu_work_open_with_a_notice() {
    let dialects = shared("traces/dialects");
    for path in files(&dialects, ".json") {
        let run = &json_runs(&dialects, &[file_name(&path)])[0];
        assert_eq!(run["notices"][0]["code"], "no_gpu_events", "{}", path.display());
    }
}

#[test]
fn a_truncated_trace_is_read_up_to_its_end_with_a_notice() {
    let folder = example("report_cut");
    let text = std::fs::read_to_string(folder.join("five.json")).unwrap();
    let fourth = text.match_indices("{\"ph\"").nth(3).unwrap().0;
    std::fs::write(folder.join("cut.json"), &text[..fourth + 20]).unwrap();
    let run = &json_runs(&folder, &["cut.json"])[0];
    assert_eq!(run["totals"]["gpu_ops"], 3);
    assert_eq!(run["totals"]["union_ns"], UNION[0]);
    assert_eq!(run["notices"][0]["code"], "truncated");
    let output = run["notices"][0]["message"].as_str().unwrap();
    assert!(output.contains("3 GPU ops"), "{output}");
    // Formats without notices print them on standard error.
    for args in [
        &["report", "--format", "csv"][..],
        &["report", "--table", "kernels"],
        &["pivot"],
        &["pivot", "--format", "json"],
    ] {
        let output = gpuprism(&folder, [args, &["cut.json"]].concat());
        assert!(output.status == 0 && output.stderr.contains("cut short at byte"), "{args:?}: {output:?}");
    }
}

#[test]
fn errors_for_folders_and_tables_name_the_alternative() {
    let folder = example("report_wrong");
    std::fs::copy(folder.join("five.json"), folder.join("six.json")).unwrap();
    let output = gpuprism(&folder, ["report", "."]);
    let words =
        ["a folder of 2 traces", "./five.json", "`gpuprism triage .`", "`gpuprism ranks .`", "`gpuprism facts . "];
    assert!(output.status == 1 && words.iter().all(|words| output.stderr.contains(words)), "{output:?}");
    let output = gpuprism(&folder, ["report", "five.json", "--table", "kernal"]);
    assert!(output.status == 2 && output.stderr.contains("did you mean `kernels`?"), "{output:?}");
    let listed = output.stderr.split_once("The tables are ").unwrap().1.trim().split(", ").collect::<Vec<_>>();
    assert!(listed.len() > 20 && listed.is_sorted(), "{listed:?}");
    let output = gpuprism(&folder, ["report", "five.json", "--table", "kernels", "--format", "json"]);
    assert!(output.status == 2 && output.stderr.contains("contain all tables"), "{output:?}");
}

#[test]
fn a_folder_with_one_trace_is_that_trace() {
    let folder = directory("report_folder");
    std::fs::create_dir_all(folder.join("capture/decode")).unwrap();
    write_torch(&folder, "capture/decode/five.json");
    std::fs::write(folder.join("capture/server_args.json"), "{}").unwrap();
    for command in ["report", "brief", "model", "rules", "pivot"] {
        let of_folder = printed(&folder, [command, "capture"]);
        assert_eq!(
            of_folder.replace("capture/decode/five.json", "capture"),
            printed(&folder, [command, "capture/decode/five.json"]).replace("capture/decode/five.json", "capture")
        );
    }
}

#[test]
#[cfg(unix)]
fn standard_input_is_read_as_a_file_is_and_a_database_is_to_be_saved() {
    let folder = example("report_standard_input");
    let read = |args: &[&str], file: &str| {
        let input = std::fs::File::open(folder.join(file)).unwrap();
        let mut program = Command::new(env!("CARGO_BIN_EXE_gpuprism"));
        program.args(args).current_dir(&folder).env_remove("COLUMNS").stdin(input);
        program.output().unwrap()
    };
    for command in ["report", "brief", "doctor", "model", "what-if", "pivot", "rules"] {
        let output = read(&[command, "-"], "five.json");
        assert!(output.status.success(), "{command}: {output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(!text.contains("five.json"), "{command}: {text}");
        if command == "report" {
            assert_eq!(text, printed(&folder, ["report", "five.json"]).replace("five.json", "standard input"));
        }
    }
    rusqlite::Connection::open(folder.join("x.sqlite"))
        .unwrap()
        .execute_batch("CREATE TABLE StringIds (id, value)")
        .unwrap();
    let output = read(&["report", "-"], "x.sqlite");
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.starts_with("gpuprism: standard input: ") && error.contains("save it as a file"), "{error}");
}

#[test]
fn the_table_of_all_kernels_is_complete_and_the_list_of_the_first_ones_says_that_it_is_not() {
    let folder = directory("report_kernels");
    let names: Vec<String> = (0..40).map(|number| format!("kernel_{number}_of_many")).collect();
    let events = names.iter().zip(0..).map(|(name, at)| example::op("kernel", name, 0, 7, 100 * at, 50));
    example::write_events(&folder, "many.json", &events.collect::<Vec<_>>());
    std::fs::write(folder.join("saved.json"), printed(&folder, ["report", "many.json", "--format", "json"])).unwrap();
    for file in ["many.json", "saved.json"] {
        let output = gpuprism(&folder, ["report", file, "--format", "csv", "--table", "kernels"]);
        assert_eq!((output.stdout.lines().count(), output.stderr.as_str()), (41, ""), "{file}");
        let output = gpuprism(&folder, ["report", file, "--format", "csv", "--table", "top_kernels"]);
        assert!(output.stderr.contains("top_kernels: the table has only 30 of 40 rows"), "{output:?}");
    }
}

/// Runs a command in a terminal of 80 columns.
fn in_80_columns(folder: &Path, args: &[&str]) -> String {
    let mut program = Command::new(env!("CARGO_BIN_EXE_gpuprism"));
    let output = program.args(args).current_dir(folder).env("COLUMNS", "80").output().unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

#[test]
fn every_text_fits_80_columns() {
    let folder = example("report_80");
    let help = |command: &'static str| vec![command, "--help"];
    let commands =
        ["report", "model", "what-if", "pivot", "ranks", "diff", "capture", "triage", "explain", "view", "serve"];
    let mut all: Vec<Vec<&str>> = commands.into_iter().map(help).collect();
    all.extend([
        vec!["--help"],
        vec!["formats"],
        vec!["report", "five.json", "--all"],
        vec!["report", "five.json", "--table", "kernal"],
    ]);
    for command in ["report", "model", "what-if", "pivot", "brief", "doctor", "rules"] {
        all.push(vec![command, "five.json"]);
    }
    all.extend([
        vec!["diff", "five.json", "five.json"],
        vec!["pivot", "five.json", "--rows", "kernel", "--columns", "stream"],
    ]);
    for args in all {
        let text = in_80_columns(&folder, &args);
        let wide: Vec<&str> =
            text.lines().filter(|line| line.chars().count() > 80 && line.trim_start().contains(' ')).collect();
        assert!(!text.is_empty() && wide.is_empty(), "{args:?}: {wide:#?}");
    }
}

#[test]
fn completions_and_manual_pages_name_every_command() {
    let folder = directory("report_man");
    printed(&folder, ["man", "man1"]);
    let help = printed(&folder, ["--help"]);
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let script = printed(&folder, ["completions", "bash"]);
    // The description of a command may continue on the next line.
    let names = commands.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    for command in names.filter(|name| *name != "help") {
        assert!(script.contains(command), "{command}");
        assert!(folder.join(format!("man1/gpuprism-{command}.1")).is_file(), "{command}");
    }
}

/// The trace has more idle gaps than the table keeps.
#[test]
fn a_csv_with_only_the_first_rows_is_a_warning() {
    let folder = directory("report_kept");
    let events: Vec<String> = (0..60).map(|at| example::op("kernel", GEMM, 0, 7, 100 * at, 90 - at)).collect();
    example::write_events(&folder, "gaps.json", &events);
    let output = gpuprism(&folder, ["report", "gaps.json", "--format", "csv", "--table", "gpu_idle_gaps"]);
    assert_eq!(
        (output.stdout.lines().count(), output.stderr.as_str()),
        (51, "gpuprism: gaps.json: gpu_idle_gaps: the table has only 50 of 59 rows\n")
    );
}

#[test]
fn help_and_version_succeed() {
    let folder = directory("report_help");
    for (args, words) in [
        (&["--help"][..], "Usage: gpuprism "),
        (&["report", "--help"], "Usage: gpuprism report "),
        (&["graph", "--help"], "Usage: gpuprism graph "),
    ] {
        let text = printed(&folder, args);
        assert!(text.contains(words), "{args:?}: {text}");
    }
    assert_eq!(printed(&folder, ["--version"]), concat!("gpuprism ", env!("CARGO_PKG_VERSION"), "\n"));
}
