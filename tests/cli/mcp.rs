//! `gpuprism mcp`: the tools, their limits, and what the server refuses.

use crate::cli::brief::write_late_steps;
use crate::cli::example;
use crate::cli::ranks::rank;
use crate::common::mcp::Server;
use crate::common::{directory, gpuprism, printed};
use serde_json::json;
use std::path::PathBuf;

fn traces(test: &str) -> PathBuf {
    let folder = directory(test);
    write_late_steps(&folder, "a.json", "gemm");
    write_late_steps(&folder, "b.json", "other_gemm");
    folder
}

#[test]
fn the_server_lists_its_tools_and_each_has_a_schema() {
    let mut server = Server::start(&traces("mcp_list"));
    let tools = server.request("tools/list", &json!({}))["tools"].clone();
    let names: Vec<&str> = tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["open", "brief", "show", "table", "what_if", "diff", "ranks", "doctor"]);
    for tool in tools.as_array().unwrap() {
        let schema = &tool["inputSchema"];
        for required in schema["required"].as_array().unwrap() {
            assert!(schema["properties"][required.as_str().unwrap()].is_object(), "{tool}");
        }
    }
}

#[test]
fn answers_equal_those_of_the_command_line() {
    let folder = traces("mcp_answers");
    let mut server = Server::start(&folder);
    let brief = server.call("brief", json!({"files": ["a.json"]})).unwrap();
    assert_eq!(brief, printed(&folder, ["brief", "a.json"]));
    let finding = server.call("show", json!({"file": "a.json", "id": "host-late"})).unwrap();
    assert_eq!(finding, printed(&folder, ["show", "a.json", "host-late"]));
    assert_eq!(server.call("doctor", json!({"file": "a.json"})).unwrap(), printed(&folder, ["doctor", "a.json"]));
    let diff = server.call("diff", json!({"a": "a.json", "b": "b.json"})).unwrap();
    assert_eq!(diff, printed(&folder, ["diff", "a.json", "b.json"]));
    let opened = server.call("open", json!({"path": "a.json"})).unwrap();
    assert!(opened.starts_with("a.json: trace, ") && opened.contains("8 GPU ops of 1 name on 1 device"), "{opened}");
    assert!(opened.contains("Findings: host-late"), "{opened}");
}

#[test]
fn a_table_is_sorted_filtered_and_cut_with_a_count() {
    let folder = directory("mcp_table");
    // 60 kernels of 1 to 60 us.
    let ops: Vec<String> = (1..=60)
        .map(|number| example::op("kernel", &format!("kernel_{number:02}"), 0, 7, number * 100, number))
        .collect();
    example::write_events(&folder, "many.json", &ops);
    let mut server = Server::start(&folder);
    let mut table = |arguments| server.call("table", arguments);
    let all = table(json!({"file": "many.json", "name": "kernels"})).unwrap();
    assert_eq!(all.lines().filter(|line| line.contains("kernel\\_")).count(), 50);
    assert!(all.contains("10 more rows") && all.contains("Columns to sort by: "), "{all}");
    let sorted =
        table(json!({"file": "many.json", "name": "kernels", "filter": "KERNEL_0", "sort": "elapsed_ns"})).unwrap();
    let rows: Vec<&str> = sorted.lines().filter(|line| line.contains("kernel\\_")).collect();
    assert!(rows.len() == 9 && rows[0].contains("kernel\\_01") && rows[8].contains("kernel\\_09"), "{sorted}");
    let unknown = table(json!({"file": "many.json", "name": "nonsense"})).unwrap_err();
    assert!(unknown.contains("no such table: give one of kernels"), "{unknown}");
    let column = table(json!({"file": "many.json", "name": "kernels", "sort": "nonsense"})).unwrap_err();
    assert!(column.contains("sort by one of ") && column.contains("elapsed_ns"), "{column}");
}

#[test]
fn what_if_has_the_rows_of_the_command_line_and_those_of_all_changes_first() {
    let folder = traces("mcp_what_if");
    let mut server = Server::start(&folder);
    let mut what_if = |arguments| server.call("what_if", arguments);
    let plain = what_if(json!({"file": "a.json"})).unwrap();
    assert!(plain.contains("between\\_calls") && plain.contains("Trust in the replay"), "{plain}");
    let changes = json!({"file": "a.json", "without": ["between_calls"], "speed": ["gemm=2"]});
    let together = what_if(changes).unwrap();
    let row = together.lines().find(|line| line.contains("together")).unwrap();
    assert!(row.contains("between\\_calls, speed:gemm=2"), "{row}");
    let csv =
        printed(&folder, ["what-if", "a.json", "--without", "between_calls", "--speed", "gemm=2", "--format", "csv"]);
    let first = csv.lines().nth(1).unwrap();
    assert!(first.contains("together") && csv.lines().count() > 3, "{csv}");
    let rows = together.lines().filter(|line| line.starts_with("| ") && line.contains("decode")).count();
    assert!(rows >= csv.lines().count() - 1, "{rows} {csv}");
}

#[test]
fn what_if_refuses_unknown_changes_and_earlier_reports_with_a_remedy() {
    let folder = traces("mcp_what_if_errors");
    std::fs::write(folder.join("report.json"), printed(&folder, ["report", "a.json", "--format", "json"])).unwrap();
    let mut server = Server::start(&folder);
    for (arguments, words) in [
        (json!({"file": "a.json", "without": ["nonsense"]}), "its ids are "),
        (json!({"file": "a.json", "speed": ["gemm"]}), "a factor"),
        (json!({"file": "a.json", "graph": ["nonsense"]}), "no such stage: give one of "),
        (json!({"file": "report.json", "without": ["between_calls"]}), "give the trace"),
        (json!({"file": "../a.json", "without": ["host"]}), "not found inside the root folder"),
        (json!({"file": "a.json", "without": "host"}), "the tool's schema lists"),
    ] {
        let error = server.call("what_if", arguments).unwrap_err();
        assert!(error.contains(words) && !error.contains('\n'), "{error}");
    }
    assert!(server.call("what_if", json!({"file": "report.json"})).unwrap().contains("between\\_calls"));
}

#[test]
fn ranks_of_a_folder_without_two_ranks_are_refused_with_a_remedy() {
    let mut server = Server::start(&traces("mcp_ranks"));
    let error = server.call("ranks", json!({"files": ["."]})).unwrap_err();
    assert!(error.contains("add the traces of other ranks"), "{error}");
}

#[test]
fn files_outside_the_root_are_not_read_and_not_revealed() {
    let folder = traces("mcp_outside");
    let root = folder.join("root");
    std::fs::create_dir(&root).unwrap();
    let mut outside =
        vec!["../a.json".to_owned(), folder.join("a.json").display().to_string(), "/etc/passwd".to_owned()];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(folder.join("a.json"), root.join("link.json")).unwrap();
        outside.push("link.json".to_owned());
    }
    let mut server = Server::start(&root);
    for path in outside {
        let error = server.call("brief", json!({"files": [path]})).unwrap_err();
        assert!(error.contains("not found inside the root folder"), "{path}: {error}");
    }
    let missing = server.call("brief", json!({"files": ["../missing.json"]})).unwrap_err();
    assert!(missing.contains("not found inside the root folder"), "{missing}");
}

/// The two ranks of a job, and what a folder may contain besides files.
#[cfg(unix)]
#[test]
fn ranks_of_a_folder_leave_out_and_tell_what_is_outside_of_the_root_or_no_file() {
    let folder = directory("mcp_folder");
    let (root, outside) = (folder.join("root"), folder.join("outside"));
    for (place, number) in [(&root, 0), (&root, 1), (&outside, 2)] {
        std::fs::create_dir_all(place).unwrap();
        rank(place, number, 2, 30);
    }
    std::os::unix::fs::symlink(&outside, root.join("link")).unwrap();
    std::os::unix::fs::symlink(outside.join("rank2.json"), root.join("rank3.json")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(root.join("rank4.json")).status().unwrap().success());
    std::fs::write(root.join("x.nsys-rep"), "x").unwrap();
    let mut server = Server::start(&root);
    let text = server.call("ranks", json!({"files": ["."]})).unwrap();
    for told in ["rank 0", "rank 1", "links that lead out", "link, rank3.json", "rank4.json", "x.nsys-rep: skipped"] {
        assert!(text.contains(told), "{told} is not in {text}");
    }
    for hidden in ["rank2", "rank 2", &folder.display().to_string()] {
        assert!(!text.contains(hidden), "{hidden} is in {text}");
    }
    for (tool, arguments) in [
        ("ranks", json!({"files": ["link"]})),
        ("ranks", json!({"files": ["link/rank2.json"]})),
        ("open", json!({"path": "rank3.json"})),
        ("diff", json!({"a": "rank0.json", "b": "link/rank2.json"})),
    ] {
        let error = server.call(tool, arguments).unwrap_err();
        assert!(error.contains("not found inside the root folder"), "{error}");
    }
    for (tool, arguments) in [("ranks", json!({"files": ["rank4.json"]})), ("doctor", json!({"file": "rank4.json"}))] {
        assert!(server.call(tool, arguments).unwrap_err().contains("a pipe, socket or device"));
    }
}

#[test]
fn an_error_does_not_repeat_an_argument_of_any_length() {
    let mut server = Server::start(&traces("mcp_long"));
    let long = "A".repeat(1 << 20);
    for (tool, arguments) in [
        ("open", json!({"path": long})),
        ("brief", json!({"files": long})),
        ("brief", json!({"files": [long]})),
        ("brief", json!({"files": ["a.json"], long.clone(): 1})),
        ("show", json!({"file": "a.json", "id": long})),
        ("table", json!({"file": "a.json", "name": long})),
        ("table", json!({"file": "a.json", "name": "kernels", "sort": long})),
        ("what_if", json!({"file": "a.json", "without": [long]})),
        ("what_if", json!({"file": "a.json", "speed": [long]})),
        ("what_if", json!({"file": "a.json", "graph": [long]})),
        ("diff", json!({"a": "a.json", "b": long})),
        ("ranks", json!({"files": [long]})),
        (long.as_str(), json!({})),
    ] {
        let error = server.call(tool, arguments).unwrap_err();
        assert!(error.len() < 6000, "{} bytes: {}", error.len(), &error[..100]);
    }
    server.send(&json!({"jsonrpc": "2.0", "id": "own", "method": long, "params": {}}));
    assert!(server.line().len() < 1000);
}

#[test]
fn errors_are_sentences_and_the_server_goes_on() {
    let folder = traces("mcp_errors");
    std::fs::write(folder.join("damaged.json"), "{\"traceEvents\": [nonsense").unwrap();
    std::fs::write(folder.join("x.nsys-rep"), "x").unwrap();
    std::fs::write(folder.join("report.json"), printed(&folder, ["report", "a.json", "--format", "json"])).unwrap();
    let mut server = Server::start(&folder);
    for (tool, arguments, words) in [
        ("shell", json!({}), "call one of open, brief"),
        ("brief", json!({"files": []}), "give 1 to 4 files"),
        ("brief", json!({"files": ["damaged.json"]}), "damaged.json"),
        ("brief", json!({"files": ["x.nsys-rep"]}), "nsys export --type sqlite"),
        ("brief", json!({"file": "a.json"}), "the tool's schema lists"),
        ("show", json!({"file": "a.json", "id": "nonsense"}), "host-late"),
        ("doctor", json!({"file": "report.json"}), "an earlier report"),
        ("open", json!({"path": "."}), "a folder"),
    ] {
        let error = server.call(tool, arguments).unwrap_err();
        assert!(error.contains(words) && !error.contains('\n'), "{tool}: {error}");
    }
    assert!(server.call("brief", json!({"files": ["report.json"]})).is_ok());
}

#[test]
fn a_changed_file_is_read_again_and_older_files_are_forgotten() {
    let folder = traces("mcp_changed");
    let mut server = Server::start(&folder);
    assert!(server.call("open", json!({"path": "a.json"})).unwrap().contains("8 GPU ops"));
    example::write_torch(&folder, "a.json");
    assert!(server.call("open", json!({"path": "a.json"})).unwrap().contains("5 GPU ops"));
    // More files than the server keeps.
    for copy in ["c", "d", "e", "f"] {
        std::fs::copy(folder.join("b.json"), folder.join(format!("{copy}.json"))).unwrap();
        assert!(server.call("open", json!({"path": format!("{copy}.json")})).is_ok());
    }
    assert!(server.call("open", json!({"path": "a.json"})).unwrap().contains("5 GPU ops"));
}

#[test]
fn names_from_a_trace_keep_no_control_characters() {
    let folder = directory("mcp_hostile");
    write_late_steps(&folder, "a.json", r"gemm\u001b[31m\n\n## Next");
    let mut server = Server::start(&folder);
    for (tool, arguments) in [
        ("open", json!({"path": "a.json"})),
        ("brief", json!({"files": ["a.json"]})),
        ("table", json!({"file": "a.json", "name": "kernels"})),
        ("diff", json!({"a": "a.json", "b": "a.json"})),
    ] {
        let text = server.call(tool, arguments).unwrap();
        assert!(!text.contains('\u{1b}'), "{tool}: {text}");
    }
}

#[test]
fn closing_the_input_ends_the_process() {
    let server = Server::start(&traces("mcp_close"));
    assert_eq!(server.close(), 0);
}

#[test]
fn a_root_that_is_no_folder_is_refused_at_the_start() {
    let folder = traces("mcp_root");
    for root in ["missing", "a.json"] {
        let output = gpuprism(&folder, ["mcp", "--root", root]);
        assert_eq!(output.status, 2);
        assert!(output.stderr.contains("give the folder with the traces"), "{}", output.stderr);
    }
}

#[test]
fn files_beside_a_trace_count_only_inside_the_root() {
    let folder = traces("mcp_beside");
    let stage = folder.join("decode");
    std::fs::create_dir_all(&stage).unwrap();
    std::fs::rename(folder.join("a.json"), stage.join("a.json")).unwrap();
    let record = json!({
        "schema": "gpuprism-capture/1", "gpuprism_version": "0.1.0", "server": "http://127.0.0.1:1", "framework": "sglang",
        "framework_version": null, "model": null, "started_unix_ms": 0, "notes": [],
        "settings": {
            "traffic": "own", "workload": null, "command": null, "steps": 1, "warmup_steps": 0, "max_seconds": 1, "max_bytes": 1,
            "mapping": false,
        },
        "captures": [{
            "part": "single", "stage": "decode", "graphs": "on", "state": "complete", "folder": "decode", "server_folder": "/t",
            "file_word": null, "started_unix_ms": 0, "start_request": null, "probe": null, "unprofiled": null, "profiled": null,
            "files": [{"path": "decode/a.json", "bytes": 1, "has_kernels": true}],
        }],
    });
    std::fs::write(folder.join("capture.json"), record.to_string()).unwrap();
    let shown = Server::start(&folder).call("table", json!({"file": "decode/a.json", "name": "capture"})).unwrap();
    assert!(shown.contains("own traffic"), "{shown}");
    let hidden = Server::start(&stage).call("table", json!({"file": "a.json", "name": "capture"})).unwrap_err();
    assert!(hidden.contains("no such table"), "{hidden}");
}
