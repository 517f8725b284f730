//! The API answers as that of nsys-llm-explainer does: paths, fields, limits, status codes and keys.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod client;

use client::{Form, limits, start, start_echo};
use gpuprism_server::api::Failure;
use serde_json::json;

const JSON: &str = "/v1/analyze/json";
const ARTIFACTS: &str = "/v1/analyze/artifacts";

#[test]
fn root_and_health_tell_name_version_and_mode() {
    let public = start_echo();
    let endpoints = ["/healthz", JSON, ARTIFACTS];
    let root = public.get("/", "");
    assert_eq!(root.status, 200);
    assert_eq!(
        root.json(),
        json!({"service": "test", "version": "1.2.3", "auth_mode": "public", "endpoints": endpoints})
    );
    let health = json!({"ok": true, "service": "test", "version": "1.2.3", "auth_enabled": false});
    assert_eq!(public.get("/healthz", "").json(), health);
    let private = start(Some("secret"), limits(), Box::new(client::echo));
    assert_eq!(private.get("/", "").json()["auth_mode"], "api_key");
    assert_eq!(private.get("/healthz", "").json()["auth_enabled"], true);
}

#[test]
fn a_form_reaches_the_analysis_with_its_defaults_and_options() {
    let server = start_echo();
    let reply = server.post(JSON, "", &Form::of("a.sqlite", "1234567"));
    assert_eq!((reply.status, reply.text().as_str()), (200, "a.sqlite|7|None|30|json true"));
    assert!(reply.head.contains("content-type: application/json"), "{}", reply.head);
    // The order and the spelling of Python's requests: options first.
    let form = Form::default().text("kernel_limit", "5").text("include_markdown", "False").file("file", "b.json", "{}");
    let reply = server.post(JSON, "", &form.file("phase_map", "map.json", "{\"a\": 1}"));
    assert_eq!(reply.text(), "b.json|2|Some(\"{\\\"a\\\": 1}\")|5|json false");
    let reply =
        server.post(ARTIFACTS, "", &Form::of("c.db", "x").text("kernel_limit", "9999").text("unknown", "field"));
    assert_eq!(reply.text(), "c.db|1|None|500|artifacts");
    assert!(reply.head.contains("content-type: application/zip"), "{}", reply.head);
    assert!(reply.head.contains("filename=\"nsys_llm_artifacts.zip\""), "{}", reply.head);
    server.assert_spool_becomes_empty();
}

#[test]
fn a_key_is_required_for_everything_but_root_and_health() {
    let server = start(Some("secret"), limits(), Box::new(client::echo));
    let status = |headers: &str| server.post(JSON, headers, &Form::of("a.json", "{}")).status;
    for headers in ["x-api-key: secret\r\n", "Authorization: Bearer secret\r\n", "authorization: bearer  secret \r\n"] {
        assert_eq!(status(headers), 200, "{headers}");
    }
    for headers in [
        "",
        "x-api-key: secre\r\n",
        "x-api-key: secret2\r\n",
        "x-api-key:\r\n",
        "Authorization: Basic secret\r\n",
        "Authorization: secret\r\n",
        "x-api-key: wrong\r\nAuthorization: Bearer secret\r\n",
    ] {
        assert_eq!(status(headers), 401, "{headers}");
    }
    for path in ["/metrics", "/unknown", ARTIFACTS] {
        let reply = server.get(path, "");
        assert_eq!(reply.status, 401, "{path}");
        assert!(reply.detail().contains("x-api-key"), "{reply:?}");
    }
    assert_eq!(server.get("/metrics", "x-api-key: secret\r\n").status, 200);
    let options = format!("OPTIONS {JSON} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_eq!(server.send(&options, &[]).status, 405, "not 401");
}

#[test]
fn every_refusal_is_one_sentence_with_the_status_of_the_original() {
    let server = start_echo();
    for (form, status, words) in [
        (Form::of("a.txt", "x"), 400, "Only .sqlite, .db, or .json"),
        (Form::of("a.nsys-rep", "x"), 400, "nsys export"),
        (Form::of("a.json", ""), 400, "empty"),
        (Form::of("a.json", "{}").file("phase_map", "m", ""), 400, "empty"),
        (Form::of("a.json", "{}").file("file", "b.json", "{}"), 400, "more than one file"),
        (Form::default().text("kernel_limit", "3"), 422, "field `file`"),
        (Form::of("a.json", "{}").text("kernel_limit", "3.5"), 422, "kernel_limit"),
        (Form::of("a.json", "{}").text("include_markdown", "perhaps"), 422, "include_markdown"),
        (Form::of("a.json", "{}").text("kernel_limit", &"9".repeat(100)), 422, "too long"),
        (Form::of("a.json", "{}").file("phase_map", "m", vec![b' '; (1 << 20) + 1]), 413, "limit of 1048576 bytes"),
    ] {
        let reply = server.post(JSON, "", &form);
        assert_eq!(reply.status, status, "{}", reply.text());
        assert!(reply.detail().contains(words), "{}", reply.text());
        assert_eq!(reply.json().as_object().unwrap().len(), 1);
    }
    let lost = server.get("/v2/analyze", "");
    assert_eq!(lost.status, 404);
    assert!(lost.detail().contains(JSON), "{}", lost.text());
    assert_eq!(server.get(JSON, "").status, 405);
    server.assert_spool_becomes_empty();
}

#[test]
fn failures_of_the_analysis_are_400_for_the_input_and_500_otherwise() {
    let server = start(
        None,
        limits(),
        Box::new(|job| match job.trace.extension().unwrap().to_str().unwrap() {
            "json" => Err(Failure::Input("a.json: no trace".to_owned())),
            "db" => panic!("a defect"),
            _ => Err(Failure::Analysis("not a database".to_owned())),
        }),
    );
    let reply = server.post(JSON, "", &Form::of("a.json", "x"));
    assert_eq!((reply.status, reply.detail().as_str()), (400, "a.json: no trace"));
    let reply = server.post(JSON, "", &Form::of("a.sqlite", "x"));
    assert_eq!((reply.status, reply.detail().as_str()), (500, "Analysis failed: not a database"));
    let reply = server.post(JSON, "", &Form::of("a.db", "x"));
    assert_eq!(reply.status, 500);
    assert!(reply.detail().contains("defect"), "{}", reply.text());
    server.assert_spool_becomes_empty();
    assert_eq!(server.get("/healthz", "").status, 200, "the server goes on");
}

#[test]
fn every_answer_has_a_request_id_and_keeps_a_plain_one_of_the_client() {
    let server = start_echo();
    let id = |headers: &str| {
        let head = server.get("/healthz", headers).head;
        head.lines().find_map(|line| line.strip_prefix("x-request-id: ")).unwrap().to_owned()
    };
    assert_eq!(id("x-request-id: job-17.a\r\n"), "job-17.a");
    assert_ne!(id(""), id(""));
    assert!(!id("x-request-id: a b\"c\r\n").contains('"'));
    assert_eq!(id(&format!("x-request-id: {}\r\n", "a".repeat(65))).len(), 16);
}

#[test]
fn every_answer_is_nothing_but_what_its_type_says() {
    let server = start(Some("secret"), limits(), Box::new(client::echo));
    for (path, status) in [("/", 200), ("/healthz", 200), ("/metrics", 401), ("/other", 401)] {
        let reply = server.get(path, "");
        assert_eq!(reply.status, status, "{path}");
        for header in [
            "x-content-type-options: nosniff",
            "x-frame-options: sameorigin",
            "referrer-policy: no-referrer",
            "cross-origin-resource-policy: same-origin",
            "cache-control: no-cache",
        ] {
            assert!(reply.head.contains(header), "{path}: {header} is not in {}", reply.head);
        }
    }
}

#[test]
fn a_request_names_one_host() {
    let server = start_echo();
    let status = |target: &str, hosts: &str| {
        server.send(&format!("GET {target} HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n"), &[]).status
    };
    assert_eq!(status("/healthz", "Host: a\r\n"), 200);
    assert_eq!(status("http://a/healthz", "Host: a\r\n"), 200);
    for (target, hosts) in [
        ("/healthz", "Host: a\r\nHost: b\r\n"),
        ("/healthz", "Host: a\r\nHost: a\r\n"),
        ("http://b/healthz", "Host: a\r\n"),
        ("http://b/healthz", ""),
        ("http://a@b/healthz", "Host: b\r\n"),
    ] {
        assert_eq!(status(target, hosts), 400, "{target} {hosts}");
    }
}

#[test]
fn an_error_repeats_little_of_the_request_and_controls_no_terminal() {
    let server =
        start(None, limits(), Box::new(|_| Err(Failure::Input(format!("\u{9b}31m\u{202e}\n{}", "a".repeat(1 << 20))))));
    let reply = server.post(JSON, "", &Form::of("a.json", "x"));
    assert!(reply.status == 400 && reply.body.len() < 10_000, "{}", reply.body.len());
    assert!(reply.detail().starts_with("\u{fffd}31m\u{fffd}\u{fffd}a"), "{}", reply.text());
}

#[test]
fn prometheus_reads_counts_by_path_and_status() {
    let server = start_echo();
    server.post(JSON, "", &Form::of("a.json", "12345"));
    server.post(JSON, "", &Form::of("a.txt", "12345"));
    server.get("/some/path", "");
    let reply = server.get("/metrics", "");
    assert!(reply.head.contains("content-type: application/openmetrics-text"), "{}", reply.head);
    let text = reply.text();
    for line in [
        "gpuprism_http_requests_total{path=\"/v1/analyze/json\",status=\"200\"} 1",
        "gpuprism_http_requests_total{path=\"/v1/analyze/json\",status=\"400\"} 1",
        "gpuprism_http_requests_total{path=\"other\",status=\"404\"} 1",
        "gpuprism_upload_bytes_total 5",
        "gpuprism_analysis_seconds_count 1",
        "gpuprism_analyses_running 0",
        "gpuprism_spool_bytes 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}
